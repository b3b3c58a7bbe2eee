"""What the driver and its tasks tell each other, through the store of the run.

The driver serves an authenticated store, whose secret reaches tasks inside Spark's own closure:

    task/<index>     a task is there: Arrival
    place/<index>    which rank it is: Place
    failed           the first task whose rank has not ended well: Failure
    output/<rank>.<stream>/<n>   what a rank writes, if the caller wants it, and its messages
    func, result/…   as of horovod.run
"""

from __future__ import annotations

import dataclasses

ARRIVAL, PLACE, FAILED, OUTPUT = "task/{}", "place/{}", "failed", "output/{}/{}"
MESSAGES = 3  # a stream beside standard output, 1, and standard error, 2


@dataclasses.dataclass(frozen=True)
class Invitation:
    """What a task has to know to take part."""

    addresses: str
    secret: str
    start_seconds: float
    environment: dict[str, str | None]
    executable: str | None
    wants_output: bool


@dataclasses.dataclass(frozen=True)
class Arrival:
    """Where a task is: tasks with the same `host` can share memory."""

    host: str
    name: str
    attempt: int


@dataclasses.dataclass(frozen=True)
class Place:
    """A rank and where it stands."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int

    def settings(self) -> dict[str, str]:
        return {f"HOROVOD_{name.upper()}": str(n) for name, n in dataclasses.asdict(self).items()}


@dataclasses.dataclass(frozen=True)
class Failure:
    """Which rank has failed, and how its process ended."""

    rank: int
    host: str
    ended: str


def places_of(arrivals: list[Arrival]) -> list[Place]:
    """The ranks of tasks, by their index: one host after the other, that of task 0 first."""
    by_host: dict[str, list[int]] = {}
    for index, arrival in enumerate(arrivals):
        by_host.setdefault(arrival.host, []).append(index)
    hosts = list(by_host.values())
    places: dict[int, Place] = {}
    for host, indices in enumerate(hosts):
        for local_rank, index in enumerate(indices):
            peers = [h for h, others in enumerate(hosts) if len(others) > local_rank]
            places[index] = Place(
                rank=len(places),
                size=len(arrivals),
                local_rank=local_rank,
                local_size=len(indices),
                cross_rank=peers.index(host),
                cross_size=len(peers),
            )
    return [places[index] for index in range(len(arrivals))]
