# SPDX-License-Identifier: Apache-2.0
"""The process of a rank that mpirun's daemon has started in an executor."""

from __future__ import annotations

import dataclasses
import os
import sys

from horovod.common import settings
from horovod.runner import rendezvous, run_task
from horovod.runner.common.util import env
from horovod.runner.common.util.host_hash import host_hash
from horovod.spark import protocol


def assignment_of(
    assignments: list[protocol.RankAssignment], host: str, local_rank: int, rank: int
) -> protocol.RankAssignment:
    """That of a process of mpirun, whose arguments may deal out ranks in another order."""
    for assignment in assignments:
        if (assignment.host, assignment.local_rank) == (host, local_rank):
            return dataclasses.replace(assignment, rank=rank)
    raise RuntimeError(
        f"mpirun has put rank {rank}, as number {local_rank} of its host, where no task is for it; "
        "leave out of extra_mpi_args what chooses hosts"
    )


def main() -> int:
    rank, _ = env.get_env_rank_and_size()
    local_rank = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
    address = settings.text("HOROVOD_RENDEZVOUS")
    client = rendezvous.RendezvousClient(address, os.environ[rendezvous.SECRET])
    there, assignments = client.get(protocol.ASSIGNMENTS)
    if not there:
        raise RuntimeError(
            f"rank {rank} has waited for {rendezvous.CONNECT_SECONDS:g} seconds for the driver to "
            f"say where the ranks of this run are, through the rendezvous server at {address}; "
            "the driver's log says why it has not"
        )
    os.environ.update(assignment_of(assignments, host_hash(), local_rank, rank).environment())
    return run_task.main()


if __name__ == "__main__":
    sys.exit(main())
