# SPDX-License-Identifier: Apache-2.0
"""Whole lines of what ranks write, whatever the pieces that it comes in."""

from __future__ import annotations

import logging
import re
import sys
import time
from typing import TextIO

from horovod.runner.common.util import lines

LONGEST = 64 << 10  # characters of a line that does not end; then it is shown as one

# Open MPI's mpirun tags each piece that it has got from a rank, be that a line or a part of one.
_TAG = re.compile(r"\[\d+,(\d+)\]<std(?:out|err)>:")

_log = logging.getLogger("horovod.runner")


def is_interactive() -> bool:
    """Whether somebody types into this process: the shell of Python or PySpark, or a notebook."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return hasattr(sys, "ps1") or (get_ipython is not None and get_ipython() is not None)


class Lines:
    """Makes lines of the pieces of text that come from ranks, and writes them to a stream.

    name: of the stream, for the label of each line, `[rank]<name>:`; without it there is none.
    job: stands before the rank in the label.

    When a write fails, one warning is logged, and the ranks go on.
    """

    def __init__(self, stream: TextIO, name: str, with_time: bool = False, job: str = "") -> None:
        self._stream, self._name, self._with_time, self._job = stream, name, with_time, job
        self._begun: dict[int, str] = {}
        self._is_broken = False

    def add(self, rank: int, piece: str) -> None:
        whole, rest = lines.split(self._begun.pop(rank, "") + piece)
        for line in whole:
            self.write(self._label(rank) + line)
        if len(rest) > LONGEST:
            self.write(f"{self._label(rank)}{rest}\n")
        elif rest:
            self._begun[rank] = rest

    def finish(self) -> None:
        for rank, rest in self._begun.items():
            self.write(f"{self._label(rank)}{rest}\n")
        self._begun.clear()

    def write(self, text: str) -> None:
        """Text that is not a rank's."""
        if self._is_broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except Exception as error:
            self._is_broken = True
            _log.warning("what ranks write is not shown any more: %r", error)

    def _label(self, rank: int) -> str:
        if not self._name:
            return ""
        return f"{time.asctime() if self._with_time else ''}[{self._job}{rank}]<{self._name}>:"


class Untagged:
    """Makes lines by rank of what mpirun writes."""

    def __init__(self, shown: Lines) -> None:
        self._shown = shown

    def write(self, text: str) -> None:
        own, *tagged = _TAG.split(text)
        self._shown.write(own)
        for rank, piece in zip(tagged[::2], tagged[1::2]):
            self._shown.add(int(rank), piece)

    def flush(self) -> None:
        """Lines are shown as they come."""
