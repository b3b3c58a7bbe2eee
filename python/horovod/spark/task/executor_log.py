# SPDX-License-Identifier: Apache-2.0
"""Writes whole lines of a rank to the log of the executor, which several ranks may share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading

from horovod.runner.common.util import lines

# Spark copies standard output and standard error of its Python workers to the standard error of the
# executor, each with its own thread. Lines of the two streams could cut each other, so this log
# writes to one of them only.
STDERR = 2
LONGEST = 64 << 10  # bytes after which an unfinished line is written as a line

_lock = threading.Lock()


class Log:
    """The log for one stream of a rank, for one thread. add(b"") writes the rest."""

    def __init__(self, fd: int = STDERR) -> None:
        self._fd = fd
        self._begun = ""

    def add(self, data: bytes) -> None:
        # Latin-1 maps each byte to a character, so text in any encoding is unchanged.
        whole, self._begun = lines.split(self._begun + data.decode("latin-1"))
        if self._begun and (not data or len(self._begun) > LONGEST):
            whole.append(f"{self._begun}\n")
            self._begun = ""
        if whole:
            self._write("".join(whole).encode("latin-1"))

    def _write(self, data: bytes) -> None:
        # A write of more than 4 KiB to a pipe is not atomic, and the tasks of one executor are
        # processes that share the pipe. The fcntl lock excludes other processes, but not threads.
        with _lock:
            _lock_file(self._fd, fcntl.LOCK_EX)
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            finally:
                _lock_file(self._fd, fcntl.LOCK_UN)


def _lock_file(fd: int, operation: int) -> None:
    with contextlib.suppress(OSError):  # some files have no locks; then lines may be cut
        fcntl.lockf(fd, operation)
