# SPDX-License-Identifier: Apache-2.0
"""The process of a rank that mpirun's daemon starts in an executor."""

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
    """The assignment of a process that mpirun started as `rank`.

    mpirun may number the ranks in another order than the driver, so host and local rank decide.
    """
    for assignment in assignments:
        if (assignment.host, assignment.local_rank) == (host, local_rank):
            return dataclasses.replace(assignment, rank=rank)
    raise RuntimeError(
        f"mpirun started rank {rank} as local rank {local_rank} of its host, where no task waits "
        "for it; remove options that choose hosts from extra_mpi_args"
    )


def main() -> int:
    rank, _ = env.get_env_rank_and_size()
    local_rank = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
    address = settings.text("HOROVOD_RENDEZVOUS")
    client = rendezvous.RendezvousClient(address, os.environ[rendezvous.SECRET])
    there, assignments = client.get(protocol.ASSIGNMENTS)
    if not there:
        raise RuntimeError(
            f"rank {rank} has waited for {rendezvous.CONNECT_SECONDS:g} seconds for the rank "
            f"assignments of this run from the rendezvous server at {address}; see the driver's log"
        )
    os.environ.update(assignment_of(assignments, host_hash(), local_rank, rank).environment())
    return run_task.main()


if __name__ == "__main__":
    sys.exit(main())
