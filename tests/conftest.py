# SPDX-License-Identifier: Apache-2.0
"""For every test: default signals, as in a terminal, and no processes left running."""

import contextlib
import os
import pathlib
import signal
import time

import dispositions
import pytest

# In the environment of every process that a test starts; children inherit it.
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
    """Kills what a failed test started: it may not have reached its cleanup, and a process that is
    left may make the next test fail. Module fixtures start before the mark is set, so their
    processes are kept."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv(MARK, mark)
    yield
    if FAILED in request.node.stash:
        for pid in having(f"{MARK}={mark}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def having(variable: str) -> list[int]:
    """The processes whose environment contains this variable."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if folder.name.isdigit() and variable.encode() in variables:
                found.append(int(folder.name))
    return found
