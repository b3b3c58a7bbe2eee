"""Jobs whose ranks somebody else has started: mpirun, srun, or a user who sets variables."""

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


def by_hand() -> dict[str, str]:
    """What a user sets who has no launcher of ours: nobody serves the rendezvous but rank 0."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    secret = subprocess.run(
        ["openssl", "rand", "-base64", "32"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return {
        "HOROVOD_RENDEZVOUS": f"127.0.0.1:{port}",
        "_HOROVOD_SECRET_KEY": secret,
    }


@pytest.mark.parametrize("told", [True, False], ids=["rendezvous", "pmix"])
def test_mpirun_starts_ranks_that_meet_at_rank_0(told):
    """Told where, or not told anything: they then meet by what mpirun itself offers."""
    settings = by_hand() if told else {}
    run = subprocess.run(
        [*MPIRUN, "-n", "3", sys.executable, "-c", RANK],
        env=os.environ | {"PYTHONPATH": str(native.ROOT / "tests")} | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = sorted(run.stdout.splitlines())
    assert lines == [f"rank {rank} of 3" for rank in range(3) for _ in range(2)]


def test_variables_of_slurm_are_a_place_beside_a_rendezvous():
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
