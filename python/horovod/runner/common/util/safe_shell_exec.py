# SPDX-License-Identifier: Apache-2.0
"""Runs a command that ends when an event is set, or when this process ends."""

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
    """Copy the output of a command from a pipe to a stream, line by line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    is_broken = False

    def write(line: str) -> None:
        nonlocal is_broken
        stamp = time.asctime() if with_time else ""
        try:
            if not is_broken:
                stream.write(f"{stamp}{label}{line}")
                stream.flush()
        except Exception as error:  # read on: the command would block if its pipe were full
            is_broken = True
            _log.warning("the output of a command is no longer shown: %r", error)

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
    """Run a command and return its exit code, or 128 + signal.

    command: words, or a text for the shell.
    env: the environment of the command; that of this process by default.
    stdout, stderr: text files for its output; those of this process by default.
    index: each line starts with `[index]<stdout>:`.
    events: if one of them is set, the command ends: its processes receive SIGTERM, and SIGKILL
        after five seconds. The same happens if this process ends, even by SIGKILL, or is
        interrupted.
    prefix_output_with_timestamp: each line starts with the time.
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
    hold = open(holding, "wb")  # noqa: SIM115  # a file: close() may be called more than once
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
        process.wait()  # the guardian ends within some seconds
        for pump in pumps:
            # A background process may still have the other end open.
            pump.join(guardian.GRACE_SECONDS)
    return code
