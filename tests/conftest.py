# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: signals as they are in a terminal, and no processes left over."""

import contextlib
import os
import pathlib
import signal
import time

import dispositions
import pytest

# In the environment of all that a test starts, wherever it goes.
MARK = "HVD_TEST_MARK"
FAILED = pytest.StashKey[bool]()


def pytest_configure():
    dispositions.give_children_the_defaults()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(autouse=True)
def no_process_outlives_a_failed_test(request, monkeypatch):
    """A test that fails half-way may not come to ending what it has started, and what is left may
    fail the next one. Fixtures of a module are older than the mark and keep their processes."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv(MARK, mark)
    yield
    if FAILED in request.node.stash:
        for pid in having(f"{MARK}={mark}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def having(variable: str) -> list[int]:
    """The processes that have this in their environment."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if folder.name.isdigit() and variable.encode() in variables:
                found.append(int(folder.name))
    return found
