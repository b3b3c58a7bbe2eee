# SPDX-License-Identifier: Apache-2.0
"""The values that the driver and its Spark tasks exchange through the rendezvous server of the run.

The server runs in the driver and authenticates its clients. Its secret reaches the tasks as an
argument of the function that Spark pickles and sends to them.

    Key                      Written by   Value
    func                     driver       the function and its arguments, as in horovod.run
    task/<index>             task         TaskLocation: the task has started
    assignment/<index>       driver       RankAssignment of that task
    failed (queue)           task         Failure; also written by the driver if mpirun fails
    output (queue)           task         OutputPiece: output and messages of its rank, if shown
    size, result/<rank>      rank         as in horovod.run

If mpirun starts the ranks, its remote shell on the driver and the first task of each host also use:

    assignments              driver       list of RankAssignment, in order of ranks
    command/<host>           shell        the command that mpirun runs on that host
    command_result/<host>    task         CommandResult
    over                     driver       mpirun has ended: the other tasks of all hosts end too

A host is named by its host hash (host_hash.py). MESSAGES are texts of log_to_driver (messages.py).
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

# Environment variables. Of a rank: its devices, and whether the driver shows its messages. Of ranks
# that mpirun starts: the Python interpreter and the working directory of the executor. Of mpirun's
# remote shell: the address and the secret of the rendezvous server.
DEVICES, SENDS_MESSAGES = "_HOROVOD_SPARK_DEVICES", "_HOROVOD_SPARK_SENDS_MESSAGES"
PYTHON, FOLDER = "_HOROVOD_SPARK_PYTHON", "_HOROVOD_SPARK_FOLDER"
RENDEZVOUS, SECRET = "_HOROVOD_SPARK_RENDEZVOUS", "_HOROVOD_SPARK_SECRET"


@dataclasses.dataclass(frozen=True)
class TaskSettings:
    """The values that a task needs to take part in a run. Spark sends them with the task.

    addresses, secret, tls: of the rendezvous server.
    start_seconds: time limit for the rank assignment.
    environment: variables of the rank in addition to the executor's; None unsets one.
    executable: the Python interpreter of the rank; None for that of the executor.
    sent: the streams of the rank that are sent to the driver.
    logged: the streams of the rank that are written to the executor's log.
    """

    addresses: str
    secret: str = dataclasses.field(repr=False)
    tls: bool
    start_seconds: float
    environment: dict[str, str | None] = dataclasses.field(repr=False)
    executable: str | None
    sent: tuple[str, ...]
    logged: tuple[str, ...]
    wants_messages: bool
    uses_mpi: bool

    def connect(self) -> rendezvous.RendezvousClient:
        """A new connection to the rendezvous server, for one thread."""
        return rendezvous.RendezvousClient(self.addresses, self.secret, self.tls)


@dataclasses.dataclass(frozen=True)
class TaskLocation:
    """The location of a task.

    host: the host hash; tasks with the same hash can share memory. name: the host name.
    attempt: Spark's number of the attempt; above 0 if a first attempt was lost.
    devices: the GPUs that Spark assigned to the task, by Spark's "addresses", such as "0".
    """

    host: str
    name: str
    attempt: int
    devices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class RankAssignment:
    """The rank of a task, its host hash and its devices."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    host: str
    devices: tuple[str, ...]

    def environment(self) -> dict[str, str]:
        """The environment variables of the rank."""
        names = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
        return {
            **{f"HOROVOD_{name.upper()}": str(getattr(self, name)) for name in names},
            "HOROVOD_HOSTNAME": self.host,
            DEVICES: json.dumps(self.devices),
        }


@dataclasses.dataclass(frozen=True)
class OutputPiece:
    """A part of the output of a rank on a stream: STDOUT, STDERR or MESSAGES."""

    rank: int
    stream: str
    data: bytes


@dataclasses.dataclass(frozen=True)
class Failure:
    """A failure; `rank` is set if that rank has ended."""

    what: str
    rank: int | None = None


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command of mpirun."""

    code: int
    output: str


def assign_ranks(locations: list[TaskLocation]) -> list[RankAssignment]:
    """Assign ranks to tasks, host by host, starting with the host of task 0.

    Returns the assignments in order of tasks.
    """
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
