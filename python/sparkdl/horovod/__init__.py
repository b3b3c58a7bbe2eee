# SPDX-License-Identifier: Apache-2.0
"""Messages from a function that HorovodRunner runs to the driver."""

from __future__ import annotations

import sys

from horovod.spark import messages

__all__ = ["log_to_driver"]

LONGEST = 4000  # characters of a message


def log_to_driver(message: str) -> None:
    """Show a message on the driver's standard output, for any driver_log_verbosity.

    Only the first 4,000 characters are shown. In a process that no HorovodRunner started, the
    message is printed on this process's standard output.
    """
    text = str(message)[:LONGEST]
    if not messages.send(text):
        print(text, file=sys.stdout, flush=True)
