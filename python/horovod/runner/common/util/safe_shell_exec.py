# SPDX-License-Identifier: Apache-2.0
"""Commands that end when they are told to, and when this process does."""

from __future__ import annotations

import codecs
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from horovod.runner.common.util import guardian, lines
from horovod.runner.util import threads

_log = logging.getLogger("horovod.runner")


def _pump(reading: int, stream: Any, label: str, with_time: bool) -> None:
    """Hand on what comes from a pipe, line by line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    is_broken = False

    def write(line: str) -> None:
        nonlocal is_broken
        stamp = time.asctime() if with_time else ""
        try:
            if not is_broken:
                stream.write(f"{stamp}{label}{line}")
                stream.flush()
        except Exception as error:  # the command would wait if nobody read on
            is_broken = True
            _log.warning("what a command writes is not shown any more: %r", error)

    rest = ""
    with open(reading, "rb", buffering=0) as pipe:
        while chunk := pipe.read(1 << 16):
            whole, rest = lines.split(rest + decoder.decode(chunk))
            for line in whole:
                write(line)
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
        [*guardian.command(guardian.ON_CLOSE, held), *words],
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
