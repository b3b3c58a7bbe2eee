"""Brings what ranks write to the streams of the caller, in lines that name their ranks."""

from __future__ import annotations

import codecs
import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from horovod.runner.common.util import lines
from horovod.spark import meeting

LOOK_SECONDS = 0.2  # how often to look whether the run is over
REST_SECONDS = 5.0  # for what is left to show of ranks that have not ended well
LONGEST = 64 << 10  # characters of a line that does not end; then it is shown as one

_log = logging.getLogger("horovod.spark")


class Lines:
    """Makes lines of the pieces of text that come from ranks, and writes them to a stream.

    A stream that cannot be written to is told of once: ranks go on, whoever reads or not.
    """

    def __init__(self, stream: TextIO, name: str, with_time: bool) -> None:
        self._stream, self._name, self._with_time = stream, name, with_time
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
        """Of nobody in particular."""
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
        return f"{time.asctime() if self._with_time else ''}[{rank}]<{self._name}>:"


class _Writer:
    """Deals out pieces to the streams that they are for."""

    def __init__(self, streams: dict[int, TextIO | None], with_time: bool) -> None:
        names = {1: "stdout", 2: "stderr", meeting.MESSAGES: ""}
        self._shown = {
            number: Lines(stream, names[number], with_time)
            for number, stream in streams.items()
            if stream is not None
        }
        self._decoders: dict[tuple[int, int], codecs.IncrementalDecoder] = {}

    def add(self, piece: meeting.Piece) -> None:
        stream = self._shown.get(piece.stream)
        if stream is None:
            return
        of = (piece.rank, piece.stream)
        if of not in self._decoders:
            self._decoders[of] = codecs.getincrementaldecoder("utf-8")("replace")
        stream.add(piece.rank, self._decoders[of].decode(piece.data))

    def finish(self) -> None:
        for stream in self._shown.values():
            stream.finish()


@contextlib.contextmanager
def shown(
    invitation: meeting.Invitation, streams: dict[int, TextIO | None], with_time: bool
) -> Iterator[None]:
    """Show it while the body runs, and then the rest; after an exception for some seconds only."""
    over = threading.Event()
    latest = float("inf")

    def pump() -> None:
        box = invitation.accept()
        writer = _Writer(streams, with_time)
        number = 0
        while not over.is_set():
            there, piece = box.take(meeting.OUTPUT, number, LOOK_SECONDS)
            if there:
                writer.add(piece)
                number += 1
        # Ranks that are yet to be ended may go on writing, and one that was killed may have left
        # out a piece.
        for late in range(number, box.appended(meeting.OUTPUT)):
            if time.monotonic() > latest:
                _log.warning("what ranks have written last is not shown: it is too much")
                break
            there, piece = box.take(meeting.OUTPUT, late, 0)
            if there:
                writer.add(piece)
        writer.finish()

    if all(stream is None for stream in streams.values()):
        yield
        return
    thread = threading.Thread(target=pump, name="horovod-spark-output", daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        latest = time.monotonic() + REST_SECONDS
        raise
    finally:
        over.set()
        thread.join()
