# SPDX-License-Identifier: Apache-2.0
"""Inspection of processes, for tests."""

from __future__ import annotations

import pathlib
import time
from typing import Callable


def is_alive(pid: int) -> bool:
    try:
        return _stat(pid)[0] != "Z"
    except OSError:
        return False


def parent_of(pid: int) -> int:
    return int(_stat(pid)[1])


def states_of_threads(pid: int) -> list[str]:
    """The states of all threads; "T" for a stopped one."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return [_fields(task / "stat")[0] for task in tasks]


def _stat(pid: int) -> list[str]:
    """The fields from the state on. The name before it may contain any character."""
    return _fields(pathlib.Path(f"/proc/{pid}/stat"))


def _fields(stat: pathlib.Path) -> list[str]:
    return stat.read_text(errors="replace").rpartition(")")[2].split()


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
