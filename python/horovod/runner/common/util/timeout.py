# SPDX-License-Identifier: Apache-2.0
"""One time limit for several things that are done one after the other."""

from __future__ import annotations

import time


class TimeoutException(Exception):  # noqa: N818
    """A time limit is over."""


class Timeout:
    """A time limit that begins now. `{activity}` in the message is what was being done."""

    def __init__(self, timeout: float, message: str) -> None:
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        self._message = message

    def remaining(self) -> float:
        """Seconds, 0 when it is over."""
        return max(0.0, self._end - time.monotonic())

    def timed_out(self) -> bool:
        return self.remaining() == 0

    def check_time_out_for(self, activity: str) -> None:
        """Raise TimeoutException once it is over."""
        if self.timed_out():
            text = self._message.format(activity=activity)
            raise TimeoutException(f"{text} Timeout after {self._timeout} seconds.")
