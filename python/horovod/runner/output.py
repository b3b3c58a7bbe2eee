# SPDX-License-Identifier: Apache-2.0
"""Joins pieces of the output of ranks to whole lines."""

from __future__ import annotations

import logging
import re
import sys
import time
from typing import TextIO

from horovod.runner.common.util import lines

LONGEST = 64 << 10  # characters after which an unfinished line is shown as a line

# Open MPI's mpirun tags each piece of output of a rank: a line, or a part of one.
_TAG = re.compile(r"\[\d+,(\d+)\]<std(?:out|err)>:")

_log = logging.getLogger("horovod.runner")


def is_interactive() -> bool:
    """Whether this process is a shell of Python or PySpark, or a notebook."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return hasattr(sys, "ps1") or (get_ipython is not None and get_ipython() is not None)


class Lines:
    """Joins pieces of text from ranks to lines, and writes the lines to a stream.

    name: of the stream, for the label of each line, `[rank]<name>:`; "" for lines without labels.
    with_time: the label starts with the time.
    job: a text before the rank in the label.

    A failed write is logged once; then the output is dropped, and the ranks continue.
    One thread at a time may use an object.
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
        """Write text without a label."""
        if self._is_broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except Exception as error:
            self._is_broken = True
            _log.warning("the output of the ranks is no longer shown: %r", error)

    def _label(self, rank: int) -> str:
        if not self._name:
            return ""
        return f"{time.asctime() if self._with_time else ''}[{self._job}{rank}]<{self._name}>:"


class Untagged:
    """A text stream for the output of mpirun: removes its tags and joins the pieces of a rank."""

    def __init__(self, shown: Lines) -> None:
        self._shown = shown

    def write(self, text: str) -> None:
        own, *tagged = _TAG.split(text)
        self._shown.write(own)
        for rank, piece in zip(tagged[::2], tagged[1::2]):
            self._shown.add(int(rank), piece)

    def flush(self) -> None:
        """Nothing to do: each line is flushed when it is written."""
