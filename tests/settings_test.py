# SPDX-License-Identifier: Apache-2.0
"""Every setting of docs/settings.md works: a few training steps on one and on two ranks."""

from __future__ import annotations

import concurrent.futures
import os
import re

import native
import pytest
from chaos import job, settings

PAGE = (native.ROOT / "docs" / "settings.md").read_text()
# The last table of the page is about variables of other launchers.
NAMES = re.findall(r"^\| `(_?HOROVOD_\w+)` \|", PAGE, re.MULTILINE)
LIMIT = 60


@pytest.fixture(scope="module")
def library():
    return job.Library(native.BUILD)


def test_every_setting_of_the_page_has_a_value_here():
    assert len(NAMES) > 50
    assert sorted(NAMES) == sorted(settings.BY_NAME)


def train(library: job.Library, setting: settings.Setting, value: str, size: int) -> str | None:
    """Trains with this setting. Returns the problem, or None."""
    values = job.place_of(size) | setting.environment(value)
    # Autotune needs a hundred steps to try some values and to choose one.
    arguments = {"train": 120 if "HOROVOD_AUTOTUNE" in values else 12, "batches": 2}
    if "HOROVOD_DYNAMIC_PROCESS_SETS" in values:
        arguments["dynamic"] = 1
    secret = library.make_secret()
    with (
        job.Job(native.BUILD, size) as running,
        library.rendezvous_server(secret, "127.0.0.1", "HOROVOD_TLS" in values) as port,
    ):
        for _ in range(size):
            running.start_rank(arguments, values, secret, port)
        running.wait(LIMIT)
        for rank in running.ranks:
            if rank.process.poll() != 0 or rank.first("error") or rank.first("end") is None:
                hangs = "hangs, " if rank.process.poll() is None else ""
                return f"{setting.name}={value}: {hangs}{running.output()}"
    return None


@pytest.mark.parametrize("size", [1, 2])
def test_every_setting_lets_a_job_train(library, size):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() + 1) as pool:
        runs = [
            pool.submit(train, library, setting, value, size)
            for setting in settings.ALL
            for value in setting.values
            if settings.fits(setting.environment(value), size)
        ]
        failures = [failure for run in runs if (failure := run.result()) is not None]
    assert not failures, "\n".join(failures)
