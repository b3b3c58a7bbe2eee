# SPDX-License-Identifier: Apache-2.0
"""Ranks of one host whose /dev/shm is too small for them.

A tmpfs of 1 MB is mounted over /dev/shm in a mount namespace. Ranks in separate pid namespaces, as
in containers, share memory through a file there; ranks in one pid namespace share a memfd, which
/dev/shm does not limit. The ranks are processes of core/transport/testing/rank_main.cc. Needs root
and the commands unshare and nsenter; the tests are skipped with a reason where namespaces are not
permitted.
"""

import contextlib
import os
import pathlib
import subprocess

import native
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANK = ROOT / "build" / "dev" / "core" / "transport" / "hvd_rank"
WARNING = "no shared memory on this host"


@contextlib.contextmanager
def small_shared_memory():
    """A command prefix that runs a command with a /dev/shm of 1 MB."""
    script = "mount -t tmpfs -o size=1m none /dev/shm && echo ready && exec sleep 600"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as holder:
        try:
            if holder.stdout.readline() != "ready\n":
                pytest.skip(f"no mount namespace: {holder.stderr.read().strip()}")
            yield ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt"]
        finally:
            holder.kill()


def run_ranks(prefix: list[str], size: int) -> list[tuple[str, str]]:
    """Returns standard output and standard error of each rank."""
    with native.rendezvous() as settings, contextlib.ExitStack() as stack:
        rendezvous = settings["HOROVOD_RENDEZVOUS"]
        env = os.environ | {"HVD_RANK_SECRET": settings["_HOROVOD_SECRET_KEY"]}
        ranks = [
            stack.enter_context(
                subprocess.Popen(
                    [*prefix, RANK, "control", str(rank), str(size), "localhost", "lo", rendezvous],
                    env=env,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for rank in range(size)
        ]
        try:
            return [rank.communicate(timeout=60) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("kind", ["named", "memfd"])
def test_ranks_add_up_right_where_shared_memory_is_too_small(kind, size):
    if not RANK.exists():
        pytest.fail(f"{RANK} is missing: make build-dev")
    own_pids = ["unshare", "--pid", "--fork", "--kill-child"]
    with small_shared_memory() as inside:
        outputs = run_ranks([*inside, *(own_pids if kind == "named" else [])], size)
    for rank, (said, logged) in enumerate(outputs):
        assert said.startswith("ok "), f"rank {rank}: {said} {logged}"
        assert (WARNING in logged) == (kind == "named"), f"rank {rank}: {logged}"
