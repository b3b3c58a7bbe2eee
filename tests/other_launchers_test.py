# SPDX-License-Identifier: Apache-2.0
"""Jobs whose ranks were not started by horovodrun, but by mpirun, srun, or by hand."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import native
import pytest

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
RANK = """
import os
import sys
import time
import native
library = native.load()
for again in range(2):
    # The others ask before rank 0 has anything to say.
    time.sleep(0.3 * (os.environ.get("OMPI_COMM_WORLD_RANK") == "0"))
    assert library.hvd_init(None) == 0, library.hvd_error()
    # In one piece: what several ranks write is mixed by mpirun.
    sys.stdout.write(f"rank {library.hvd_rank()} of {library.hvd_size()}\\n")
    sys.stdout.flush()
    library.hvd_shutdown()
"""

# Ranks 1 and 0 form a job, in that order; rank 2 is a job alone; rank 3 is in no job. Then all four
# form one job.
PARTS = """
import ctypes
import os
import sys
import native
library = native.load()
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for ranks in ([[1, 0], [1, 0], [2], []][rank], [0, 1, 2, 3] if rank else None):
    if ranks == []:
        continue
    count = len(ranks or [])
    given = (ctypes.c_int * count)(*(ranks or []))
    assert library.horovod_init(given, count, None, None, 0) == 1, library.hvd_error()
    assert library.horovod_mpi_enabled() == library.horovod_mpi_threads_supported() == 1
    sys.stdout.write(f"{rank}: rank {library.hvd_rank()} of {library.hvd_size()}\\n")
    sys.stdout.flush()
    library.hvd_shutdown()
"""
# Rank 2 is in no job and exits while the other ranks are in theirs. A process that it starts is not
# a rank, although it inherits the variables.
OUTSIDER = """
import ctypes
import os
import subprocess
import sys
import time
import native
library = native.load()
if len(sys.argv) > 1:
    sys.exit(0)
if os.environ["OMPI_COMM_WORLD_RANK"] != "2":
    given = (ctypes.c_int * 2)(0, 1)
    assert library.horovod_init(given, 2, None, None, 0) == 1, library.hvd_error()
    subprocess.run([sys.executable, __file__, "child"], check=True)
    time.sleep(0.8)
    library.hvd_shutdown()
    assert library.horovod_init(given, 2, None, None, 0) == 1, library.hvd_error()
else:
    time.sleep(0.5)
"""


def by_hand() -> dict[str, str]:
    """The variables of a user without horovodrun: rank 0 runs the rendezvous server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    secret = subprocess.run(
        ["openssl", "rand", "-base64", "32"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return {
        "HOROVOD_RENDEZVOUS": f"127.0.0.1:{port}",
        "_HOROVOD_SECRET_KEY": secret,
    }


def mpirun(ranks: int, program: str, settings: dict[str, str] | None = None) -> list[str]:
    """Runs this source code, or file, on ranks of mpirun; returns their output lines, sorted."""
    code = [program] if program.endswith(".py") else ["-c", program]
    run = subprocess.run(
        [*MPIRUN, "-n", str(ranks), sys.executable, *code],
        env=os.environ | {"PYTHONPATH": str(native.ROOT / "tests")} | (settings or {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return sorted(run.stdout.splitlines())


@pytest.mark.parametrize("with_address", [True, False], ids=["rendezvous", "pmix"])
def test_mpirun_starts_ranks_that_meet_at_rank_0(with_address):
    """With the address of rank 0 in a variable, or without: they then use PMIx of mpirun."""
    lines = mpirun(3, RANK, by_hand() if with_address else {})
    assert lines == [f"rank {rank} of 3" for rank in range(3) for _ in range(2)]


def test_lists_of_ranks_are_jobs_of_their_own():
    alone = ["0: rank 1 of 2", "1: rank 0 of 2", "2: rank 0 of 1"]
    together = [f"{rank}: rank {rank} of 4" for rank in range(4)]
    assert mpirun(4, PARTS) == sorted(alone + together)


def test_a_rank_that_is_in_no_job_ends_without_harm(tmp_path):
    program = tmp_path / "rank.py"
    program.write_text(OUTSIDER)
    assert mpirun(3, str(program)) == []


def test_variables_of_slurm_give_the_rank_next_to_a_rendezvous():
    settings = os.environ | by_hand() | {"SLURM_NTASKS": "2"}
    settings["PYTHONPATH"] = str(native.ROOT / "tests")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK],
            env=settings | {"SLURM_PROCID": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (1, 0)
    ]
    try:
        outputs = [rank.communicate(timeout=60)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert outputs == ["rank 1 of 2\n" * 2, "rank 0 of 2\n" * 2]
