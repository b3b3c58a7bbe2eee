# SPDX-License-Identifier: Apache-2.0
"""Brings what ranks write to the streams of the caller, in lines that name their ranks."""

from __future__ import annotations

import codecs
import contextlib
import logging
import threading
import time
from collections.abc import Iterator

from horovod.runner.options import OutputStreams
from horovod.runner.output import Lines
from horovod.spark import protocol

LOOK_SECONDS = 0.2  # how often to look whether the run is over
REST_SECONDS = 5.0  # for what is left to show of ranks that have not ended well
# In the labels of lines; lines of a stream with "" have none.
LABELS = {protocol.STDOUT: "stdout", protocol.STDERR: "stderr", protocol.MESSAGES: ""}

_log = logging.getLogger("horovod.spark")


class _Writer:
    """Deals out pieces to the streams that they are for."""

    def __init__(self, streams: OutputStreams) -> None:
        labels = {**LABELS, **({protocol.STDOUT: ""} if streams.plain_stdout else {})}
        self._shown = {
            name: Lines(stream, labels[name], streams.with_time)
            for name, stream in streams.by_name().items()
        }
        self._decoders: dict[tuple[int, str], codecs.IncrementalDecoder] = {}

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
def shown(task_settings: protocol.TaskSettings, streams: OutputStreams) -> Iterator[None]:
    """Show it while the body runs, and then the rest; after an exception for some seconds only."""
    over = threading.Event()
    latest = float("inf")

    def pump() -> None:
        client = task_settings.connect()
        writer = _Writer(streams)
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

    if not streams.by_name():
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
