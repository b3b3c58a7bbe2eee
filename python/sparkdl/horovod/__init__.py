# SPDX-License-Identifier: Apache-2.0
"""What a function that HorovodRunner runs can tell the driver."""

from __future__ import annotations

import sys

from horovod.spark import messages

__all__ = ["log_to_driver"]

LONGEST = 4000


def log_to_driver(message: str) -> None:
    """Show a message on the driver's standard output, whatever its driver_log_verbosity.

    Of a longer one the first 4,000 characters. In a process that no HorovodRunner has started, it
    goes to this process's own output.
    """
    text = str(message)[:LONGEST]
    if not messages.send(text):
        print(text, file=sys.stdout, flush=True)
