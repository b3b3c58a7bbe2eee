# SPDX-License-Identifier: Apache-2.0
"""Whole lines of one rank in the log of the executor, which several ranks may share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading

from horovod.runner.common.util import lines

# Spark copies standard output and standard error of its Python workers to the standard error of
# the executor, each by a thread of its own. Lines that go one way do not cut each other.
STDERR = 2
LONGEST = 64 << 10  # bytes of a line that does not end; then it is written as one

_lock = threading.Lock()


class Log:
    """Takes what a rank writes to one of its streams, and b"" at the end."""

    def __init__(self, fd: int = STDERR) -> None:
        self._fd = fd
        self._begun = ""

    def add(self, data: bytes) -> None:
        # Each byte is a character of Latin-1: text in any encoding comes out as it went in.
        whole, self._begun = lines.split(self._begun + data.decode("latin-1"))
        if self._begun and (not data or len(self._begun) > LONGEST):
            whole.append(f"{self._begun}\n")
            self._begun = ""
        if whole:
            self._write("".join(whole).encode("latin-1"))

    def _write(self, data: bytes) -> None:
        # A pipe takes 4 KiB at once, and tasks of one executor are processes with the same pipe.
        # A lock of fcntl keeps other processes out, but not other threads.
        with _lock:
            _lock_file(self._fd, fcntl.LOCK_EX)
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            finally:
                _lock_file(self._fd, fcntl.LOCK_UN)


def _lock_file(fd: int, operation: int) -> None:
    with contextlib.suppress(OSError):  # some files have no locks; lines may then be cut
        fcntl.lockf(fd, operation)
