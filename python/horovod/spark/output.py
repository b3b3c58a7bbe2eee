"""Brings what ranks write to the streams of the caller."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from horovod.spark import meeting

LOOK_SECONDS = 0.2  # how often to look whether the run is over
NAMES = {1: "stdout", 2: "stderr"}


def label_of(rank: int, number: int, with_time: bool) -> str:
    """What stands before a line of a rank."""
    stamp = time.strftime("%a %b %d %H:%M:%S %Y") if with_time else ""
    return f"{stamp}[{rank}]<{NAMES[number]}>:"


@contextlib.contextmanager
def shown(
    invitation: meeting.Invitation, size: int, streams: dict[int, TextIO | None], with_time: bool
) -> Iterator[None]:
    """Show it while the body runs, and then the rest."""
    lock = threading.Lock()
    over = threading.Event()

    def pump(rank: int, number: int, stream: TextIO) -> None:
        box = invitation.accept()
        rest = b""
        for piece in itertools.count():
            name = meeting.OUTPUT.format(f"{rank}.{number}", piece)
            there, data = box.get(name, LOOK_SECONDS)
            while not there and not over.is_set():
                there, data = box.get(name, LOOK_SECONDS)
            if not there or data is None:
                break
            box.forget(name)
            *lines, rest = (rest + data).split(b"\n")
            write(stream, rank, number, lines)
        write(stream, rank, number, [rest] if rest else [])

    def write(stream: TextIO, rank: int, number: int, lines: list[bytes]) -> None:
        label = "" if number == meeting.MESSAGES else label_of(rank, number, with_time)
        text = "".join(f"{label}{line.decode(errors='replace')}\n" for line in lines)
        with lock:
            stream.write(text)
            stream.flush()

    threads = []
    for rank in range(size):
        for number, stream in streams.items():
            if stream is not None:
                thread = threading.Thread(
                    target=pump,
                    args=(rank, number, stream),
                    name="horovod-spark-output",
                    daemon=True,
                )
                threads.append(thread)
                thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
