# SPDX-License-Identifier: Apache-2.0
"""Brings what ranks write to the streams of the caller, in lines that name their ranks."""

from __future__ import annotations

import codecs
import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TextIO

from horovod.runner.output import Lines
from horovod.spark import protocol

LOOK_SECONDS = 0.2  # how often to look whether the run is over
REST_SECONDS = 5.0  # for what is left to show of ranks that have not ended well
LABELS = {1: "stdout", 2: "stderr", protocol.MESSAGES: ""}

_log = logging.getLogger("horovod.spark")


class _Writer:
    """Deals out pieces to the streams that they are for."""

    def __init__(
        self, streams: Mapping[int, TextIO | None], labels: Mapping[int, str], with_time: bool
    ) -> None:
        self._shown = {
            number: Lines(stream, labels[number], with_time)
            for number, stream in streams.items()
            if stream is not None
        }
        self._decoders: dict[tuple[int, int], codecs.IncrementalDecoder] = {}

    def add(self, piece: protocol.OutputPiece) -> None:
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
    settings: protocol.TaskSettings,
    streams: Mapping[int, TextIO | None],
    labels: Mapping[int, str],
    with_time: bool,
) -> Iterator[None]:
    """Show it while the body runs, and then the rest; after an exception for some seconds only.

    labels: of the lines of each stream, as LABELS; lines of a stream with "" have none.
    """
    over = threading.Event()
    latest = float("inf")

    def pump() -> None:
        client = settings.connect()
        writer = _Writer(streams, labels, with_time)
        number = 0
        while not over.is_set():
            there, piece = client.take(protocol.OUTPUT, number, LOOK_SECONDS)
            if there:
                writer.add(piece)
                number += 1
        # Ranks that are yet to be ended may go on writing, and one that was killed may have left
        # out a piece.
        for late in range(number, client.appended(protocol.OUTPUT)):
            if time.monotonic() > latest:
                _log.warning("what ranks have written last is not shown: it is too much")
                break
            there, piece = client.take(protocol.OUTPUT, late, 0)
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
