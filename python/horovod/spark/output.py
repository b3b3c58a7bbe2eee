"""Brings what ranks write to the streams of the caller."""

from __future__ import annotations

import contextlib
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


class _Writer:
    """Makes lines of pieces."""

    def __init__(self, streams: dict[int, TextIO | None], with_time: bool) -> None:
        self._streams, self._with_time = streams, with_time
        self._begun: dict[tuple[int, int], bytes] = {}

    def write(self, piece: meeting.Piece) -> None:
        of = (piece.rank, piece.stream)
        *lines, rest = (self._begun.pop(of, b"") + piece.data).split(b"\n")
        if rest:
            self._begun[of] = rest
        self._show(*of, lines)

    def finish(self) -> None:
        for of, rest in self._begun.items():
            self._show(*of, [rest])

    def _show(self, rank: int, number: int, lines: list[bytes]) -> None:
        stream = self._streams[number]
        if stream is None:
            return
        label = "" if number == meeting.MESSAGES else label_of(rank, number, self._with_time)
        stream.write("".join(f"{label}{line.decode(errors='replace')}\n" for line in lines))
        stream.flush()


@contextlib.contextmanager
def shown(
    invitation: meeting.Invitation, streams: dict[int, TextIO | None], with_time: bool
) -> Iterator[None]:
    """Show it while the body runs, and then the rest."""
    over = threading.Event()

    def pump() -> None:
        box = invitation.accept()
        writer = _Writer(streams, with_time)
        number = 0
        while True:
            is_over = over.is_set()
            there, piece = box.take(meeting.OUTPUT, number, 0 if is_over else LOOK_SECONDS)
            if there:
                writer.write(piece)
            # Whoever was to send a missing one may have been killed.
            elif is_over and number >= box.appended(meeting.OUTPUT):
                break
            number += there or is_over
        writer.finish()

    if all(stream is None for stream in streams.values()):
        yield
        return
    thread = threading.Thread(target=pump, name="horovod-spark-output", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
