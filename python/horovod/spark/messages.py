# SPDX-License-Identifier: Apache-2.0
"""Messages that a rank sends to the driver, apart from what it writes."""

from __future__ import annotations

import os
import threading

from horovod.common import settings
from horovod.runner import mailbox
from horovod.spark import meeting

_lock = threading.Lock()
_box: mailbox.Box | None = None


def send(text: str) -> bool:
    """False if nobody reads them: not every run shows messages, and not every process is a rank."""
    global _box  # noqa: PLW0603
    if meeting.LISTENS not in os.environ:
        return False
    with _lock:
        _box = _box or mailbox.another_of_rank()
        if _box is None:
            return False
        rank = int(settings.text("HOROVOD_RANK"))
        piece = meeting.Piece(rank, meeting.MESSAGES, f"{text}\n".encode())
        _box.append(meeting.OUTPUT, piece)
    return True
