# SPDX-License-Identifier: Apache-2.0
"""Flags, variables and queries that scripts for Horovod 0.28 use around their training."""

from __future__ import annotations

import os
import subprocess
import sys

import horovod
import pytest
from horovod.runner import launch

# Values that scripts set, in the shell or before init.
VARIABLES = {
    "HOROVOD_FUSION_THRESHOLD": "0",
    "HOROVOD_CYCLE_TIME": "0.2",
    "HOROVOD_CACHE_CAPACITY": "0",
    "HOROVOD_HIERARCHICAL_ALLREDUCE": "1",
    "HOROVOD_MPI_THREADS_DISABLE": "1",
    "HOROVOD_LOG_LEVEL": "DEBUG",
    "HOROVOD_GLOO_TIMEOUT_SECONDS": "3000",
    "HOROVOD_STALL_CHECK_TIME_SECONDS": "240",
    "HOROVOD_DYNAMIC_PROCESS_SETS": "1",
    # In 0.28 these selected parts to compile. Some scripts also set them for the run.
    "HOROVOD_GPU_ALLREDUCE": "NCCL",
    "HOROVOD_GPU_OPERATIONS": "MPI",
    "HOROVOD_WITH_PYTORCH": "1",
    # No version reads these.
    "HOROVOD_CPU_FUSION_THRESHOLD": "x",
    "HOROVOD_VERSION": "0.28.1",
}

# A rank that calls rank() before init(), to find out whether it is in a job.
RANK = """
import os
from horovod.common import basics
assert "HOROVOD_RANK" in os.environ and "HOROVOD_CROSS_RANK" in os.environ
try:
    basics.rank()
except ValueError as error:
    assert "has not been initialized" in str(error)
else:
    raise AssertionError("rank() before init")
basics.init()
basics.init()
print("rank", basics.rank(), "of", basics.size())
"""

FLAGS = [
    *("--verbose", "--log-level", "DEBUG", "--gloo", "-p", "2222", "-H", "localhost:2"),
    *("--network-interface", "lo", "--network-interfaces", "lo", "--start-timeout", "120"),
    *("--gloo-timeout-seconds", "600", "--fusion-threshold-mb", "32", "--cycle-time-ms", "1"),
    *("--cache-capacity", "1024", "--no-hierarchical-allreduce", "--no-hierarchical-allgather"),
    *("-np", "2", "--disable-cache", "--"),
]


def run_python(*arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_job_starts_with_the_flags_of_scripts():
    try:
        launch.horovodrun_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    output = run_python("-m", "horovod.runner.launch", *FLAGS, sys.executable, "-c", RANK)
    lines = sorted(line for line in output.splitlines() if "rank" in line)
    assert lines == ["[0]<stdout>:rank 0 of 2", "[1]<stdout>:rank 1 of 2"]


def test_a_job_starts_with_the_variables_of_scripts():
    code = "from horovod.common import basics; basics.init(); print(basics.size())"
    assert run_python("-c", code, **VARIABLES) == "1\n"


def test_old_places_of_run_cannot_be_imported():
    # Scripts try this import first, then horovod.run. So horovod.run must not be a package.
    with pytest.raises(ImportError):
        from horovod.run.runner import run  # noqa: F401
    assert callable(horovod.run)


def test_the_version_is_three_numbers():
    assert len([int(part) for part in horovod.__version__.split(".")]) == 3
