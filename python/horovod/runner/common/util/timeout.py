# SPDX-License-Identifier: Apache-2.0
"""One time limit for several activities in a row."""

from __future__ import annotations

import time


class TimeoutException(Exception):  # noqa: N818
    """A time limit has passed."""


class Timeout:
    """A time limit that starts now.

    timeout: seconds.
    message: for TimeoutException; `{activity}` in it is replaced by the current activity.
    """

    def __init__(self, timeout: float, message: str) -> None:
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        self._message = message

    def remaining(self) -> float:
        """Seconds until the limit; 0 after it."""
        return max(0.0, self._end - time.monotonic())

    def timed_out(self) -> bool:
        return self.remaining() == 0

    def check_time_out_for(self, activity: str) -> None:
        """Raise TimeoutException if the limit has passed."""
        if self.timed_out():
            text = self._message.format(activity=activity)
            raise TimeoutException(f"{text} Timeout after {self._timeout} seconds.")
