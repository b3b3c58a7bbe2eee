# SPDX-License-Identifier: Apache-2.0
"""What the driver and its tasks tell each other, through the store of the run.

The driver serves an authenticated store, whose secret reaches tasks inside Spark's own closure:

    task/<index>     a task is there: TaskLocation
    assignment/<index>    which rank it is: RankAssignment
    failed/<n>       what has gone wrong: Failure
    output/<n>       what ranks write, if the driver shows it, and their messages: OutputPiece
    func, result/…   as of horovod.run

With mpirun also, between its remote shell on the driver and the first task of each host:

    assignments           of all ranks, in their order
    command/<host>     the command that mpirun wants to have run there
    command_result/<host>    how it ended: CommandResult
    over             the others of the host may go
"""

from __future__ import annotations

import dataclasses
import json

from horovod.runner import rendezvous
from horovod.runner.common.util import hosts

LOCATION, ASSIGNMENT, FAILED, OUTPUT = "task/{}", "assignment/{}", "failed", "output"
ASSIGNMENTS, COMMAND, COMMAND_RESULT, OVER = (
    "assignments",
    "command/{}",
    "command_result/{}",
    "over",
)
# The streams of a rank, by the names of the fields of OutputStreams.
STDOUT, STDERR, MESSAGES = "stdout", "stderr", "messages"

# In environments: the devices of a rank; whether somebody reads its messages; Python and folder of
# an executor, for ranks that mpirun starts; and where mpirun's remote shell finds the store.
DEVICES, SENDS_MESSAGES = "_HOROVOD_SPARK_DEVICES", "_HOROVOD_SPARK_SENDS_MESSAGES"
PYTHON, FOLDER = "_HOROVOD_SPARK_PYTHON", "_HOROVOD_SPARK_FOLDER"
RENDEZVOUS, SECRET = "_HOROVOD_SPARK_RENDEZVOUS", "_HOROVOD_SPARK_SECRET"


@dataclasses.dataclass(frozen=True)
class TaskSettings:
    """What a task has to know to take part."""

    addresses: str
    secret: str = dataclasses.field(repr=False)
    tls: bool
    start_seconds: float
    environment: dict[str, str | None] = dataclasses.field(repr=False)
    executable: str | None
    sent: tuple[str, ...]  # streams of the ranks of which the driver gets what is written
    logged: tuple[str, ...]  # and those of which it is in the logs of the executors
    wants_messages: bool
    uses_mpi: bool

    def connect(self) -> rendezvous.RendezvousClient:
        """A connection to the store, for one thread."""
        return rendezvous.RendezvousClient(self.addresses, self.secret, self.tls)


@dataclasses.dataclass(frozen=True)
class TaskLocation:
    """Where a task is: tasks with the same `host` can share memory."""

    host: str
    name: str
    attempt: int
    devices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class RankAssignment:
    """A rank and where it stands."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    host: str
    devices: tuple[str, ...]

    def environment(self) -> dict[str, str]:
        """For the environment of the rank."""
        names = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
        return {
            **{f"HOROVOD_{name.upper()}": str(getattr(self, name)) for name in names},
            "HOROVOD_HOSTNAME": self.host,
            DEVICES: json.dumps(self.devices),
        }


@dataclasses.dataclass(frozen=True)
class OutputPiece:
    """A part of what a rank writes to a stream: STDOUT, STDERR or MESSAGES."""

    rank: int
    stream: str
    data: bytes


@dataclasses.dataclass(frozen=True)
class Failure:
    """What has gone wrong; the rank, if it is one that has ended."""

    what: str
    rank: int | None = None


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """How a command of mpirun's has ended, and what it has written."""

    code: int
    output: str


def assign_ranks(locations: list[TaskLocation]) -> list[RankAssignment]:
    """The ranks of tasks, by their index: one host after the other, that of task 0 first."""
    by_host: dict[str, list[int]] = {}
    for index, location in enumerate(locations):
        by_host.setdefault(location.host, []).append(index)
    slots = hosts.get_host_assignments(
        [hosts.HostInfo(host, len(indices)) for host, indices in by_host.items()], len(locations)
    )
    by_rank = [index for indices in by_host.values() for index in indices]
    assignments = {
        index: RankAssignment(
            rank=slot.rank,
            size=slot.size,
            local_rank=slot.local_rank,
            local_size=slot.local_size,
            cross_rank=slot.cross_rank,
            cross_size=slot.cross_size,
            host=slot.hostname,
            devices=locations[index].devices,
        )
        for index, slot in zip(by_rank, slots)
    }
    return [assignments[index] for index in range(len(locations))]
