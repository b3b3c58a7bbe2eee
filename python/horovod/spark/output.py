# SPDX-License-Identifier: Apache-2.0
"""Shows the output of the ranks on the streams of the caller, in lines that name their ranks."""

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

LOOK_SECONDS = 0.2  # interval of checks for the end of the run
REST_SECONDS = 5.0  # after a failure, for output that is not shown yet
# Names of streams in the labels of lines; lines of a stream with "" have no labels.
LABELS = {protocol.STDOUT: "stdout", protocol.STDERR: "stderr", protocol.MESSAGES: ""}

_log = logging.getLogger("horovod.spark")


class _Writer:
    """Writes pieces of output to their streams. For one thread."""

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
    """Show output while the body runs, and then the rest.

    After an exception of the body, the rest is shown for at most REST_SECONDS.
    """
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
        # Ranks that still run may write without end, so the rest is the output that exists now. A
        # killed rank may have reserved a number without writing its piece.
        for late in range(number, client.appended(protocol.OUTPUT)):
            if time.monotonic() > latest:
                _log.warning("the last output of the ranks is not shown: there is too much of it")
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
