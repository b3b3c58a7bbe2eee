# SPDX-License-Identifier: Apache-2.0
"""Texts of log_to_driver and LogCallback: a rank sends them to the driver apart from its output."""

from __future__ import annotations

import os
import threading

from horovod.common import settings
from horovod.runner import rendezvous
from horovod.spark import protocol

_lock = threading.Lock()
_client: rendezvous.RendezvousClient | None = None


def send(text: str) -> bool:
    """Send a message. False if this process is no rank, or if the run does not show messages."""
    global _client  # noqa: PLW0603
    if protocol.SENDS_MESSAGES not in os.environ:
        return False
    with _lock:
        _client = _client or rendezvous.second_client_of_rank()
        if _client is None:
            return False
        rank = int(settings.text("HOROVOD_RANK"))
        piece = protocol.OutputPiece(rank, protocol.MESSAGES, f"{text}\n".encode())
        _client.append(protocol.OUTPUT, piece)
    return True
