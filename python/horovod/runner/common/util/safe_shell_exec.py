"""Commands that end when they are told to, and when this process does."""

from __future__ import annotations

import codecs
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from horovod.runner.common.util import guardian
from horovod.runner.util import threads

# A progress bar shows as it moves.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)")


def _pump(reading: int, stream: Any, label: str, with_time: bool) -> None:
    """Hand on what comes from a pipe, line by line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(line: str) -> None:
        stamp = time.asctime() if with_time else ""
        stream.write(f"{stamp}{label}{line}")
        stream.flush()

    rest = ""
    with open(reading, "rb", buffering=0) as pipe:
        while chunk := pipe.read(1 << 16):
            rest += decoder.decode(chunk)
            end = 0
            for line in _LINE.finditer(rest):
                write(line.group())
                end = line.end()
            rest = rest[end:]
    rest += decoder.decode(b"", final=True)
    if rest:
        write(f"{rest}\n")


def execute(
    command: str | Sequence[str],
    env: Mapping[str, str] | None = None,
    stdout: Any = None,
    stderr: Any = None,
    index: int | None = None,
    events: Iterable[threading.Event] | None = None,
    prefix_output_with_timestamp: bool = False,
) -> int:
    """Run a command, of the shell if it is a text, and return its exit code, or 128 + signal.

    stdout, stderr: text files for what it writes; those of this process by default.
    index: begins each line with `[index]<stdout>:`.
    events: any of them ends the command when it is set. Its processes are asked to, and killed
    after five seconds; so they are when this process ends, even by a kill, or is interrupted.
    """
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    held, holding = os.pipe()
    process = subprocess.Popen(
        [*guardian.command(guardian.TOLD, held), *words],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[held],
        start_new_session=True,
    )
    os.close(held)
    hold = open(holding, "wb")  # noqa: SIM115  # its close() may come more than once
    done = threading.Event()
    pumps = []
    for pipe, stream, name in (
        (process.stdout, stdout or sys.stdout, "stdout"),
        (process.stderr, stderr or sys.stderr, "stderr"),
    ):
        label = "" if index is None else f"[{index}]<{name}>:"
        pumped = (os.dup(pipe.fileno()), stream, label, prefix_output_with_timestamp)
        pipe.close()
        pumps.append(threads.in_thread(_pump, pumped, name=f"horovod-{name}"))
    for event in events or ():
        threads.on_event(event, hold.close, stop=done, check_stop_interval_s=0.1)
    try:
        code = process.wait()
    finally:
        done.set()
        hold.close()
        process.wait()  # the guardian takes some seconds at most
        for pump in pumps:
            # Something may go on in the background that holds the other end.
            pump.join(guardian.GRACE_SECONDS)
    return code
