# SPDX-License-Identifier: Apache-2.0
"""The test cells: a seed determines an endless list of cells, the same on every machine."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from chaos import settings

RANKS = (1, 2, 4)
KINDS = {
    "nothing": "no disturbance",
    "kill": "SIGKILL of one rank",
    "freeze": "SIGSTOP of one rank",
    "memory": "one rank out of memory",
    "shm": "/dev/shm of 1 MB",
    "interrupt": "SIGINT to one rank",
    "relay": "one bit changed on the wire",
}
# A job of one rank has no connections and no shared memory.
COMBINATIONS = [
    (kind, ranks) for kind in KINDS for ranks in RANKS if ranks > 1 or kind not in ("shm", "relay")
]


@dataclasses.dataclass(frozen=True)
class Cell:
    number: int
    kind: str
    ranks: int
    # The settings drawn, and all variables of the ranks that follow from them and from the kind.
    drawn: tuple[tuple[str, str], ...]
    environment: dict[str, str]
    # Arguments of hvd_chaos_rank.
    arguments: dict[str, int]
    victim: int
    # Whether the disturbance happens while the ranks start, or after all of them have started.
    at_start: bool = False
    # Seconds before the disturbance, from the start of the processes or from the last ready rank.
    delay: float = 0
    # For a relay: the byte and the bit to change.
    change_at: int = 0
    bit: int = 0

    def __str__(self) -> str:
        drawn = " ".join(f"{name}={value}" for name, value in self.drawn)
        when = " at the start" if self.at_start else ""
        return f"cell {self.number}: {self.kind}{when}, {self.ranks} ranks, {drawn or 'defaults'}"


def cells(seed: int) -> Iterator[Cell]:
    """Yields every combination of kind and ranks once in random order, then repeats."""
    number = 0
    turn = 0
    while True:
        order = COMBINATIONS.copy()
        random.Random(f"order {seed} {turn}").shuffle(order)
        for kind, ranks in order:
            yield draw(seed, number, kind, ranks)
            number += 1
        turn += 1


def draw(seed: int, number: int, kind: str, ranks: int) -> Cell:
    dice = random.Random(f"cell {seed} {number}")
    drawn, environment = draw_settings(dice, kind, ranks)
    arguments = {"seed": dice.randrange(1, 1_000_000), "batches": 30}
    victim = dice.randrange(ranks)
    at_start = False
    delay = dice.uniform(0, 0.4)
    if kind == "kill":
        arguments["batches"] = 0
        at_start = dice.random() < 0.2
        if at_start:
            delay = dice.uniform(0, 0.06)
    elif kind == "freeze":
        arguments["batches"] = 0 if ranks > 1 else 100
    elif kind == "interrupt":
        arguments |= {"batches": 0, "slices": 1}
    elif kind == "memory":
        at_start = dice.random() < 0.2
        arguments |= {
            "starve": victim,
            "large": -1 if at_start else dice.randrange(6),
            "room": dice.choice([0, 256, 1024, 4096]),
        }
    # A survivor that exits at once may be noticed before the victim.
    if kind in ("kill", "freeze") and ranks > 1 and dice.random() < 0.5:
        arguments["abrupt"] = 1
    if "HOROVOD_DYNAMIC_PROCESS_SETS" in environment:
        arguments["dynamic"] = 1
    change_at = dice.randrange(dice.choice([6_000, 100_000, 4_000_000]))
    return Cell(
        number=number,
        kind=kind,
        ranks=ranks,
        drawn=tuple(drawn),
        environment=kind_settings(kind, at_start) | environment,
        arguments=arguments,
        victim=victim,
        at_start=at_start,
        delay=delay,
        change_at=change_at,
        bit=dice.randrange(8),
    )


def draw_settings(
    dice: random.Random, kind: str, ranks: int
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    drawn: list[tuple[str, str]] = []
    environment: dict[str, str] = {}
    choices = [setting for setting in settings.ALL if setting.running]
    if kind in ("shm", "relay"):  # the kind itself decides where the ranks are
        apart = ("HOROVOD_HOSTNAME", "HOROVOD_SHM_DISABLE")
        choices = [setting for setting in choices if setting.name not in apart]
    if kind == "freeze":
        choices = [each for each in choices if each.name != "HOROVOD_HEARTBEAT_TIMEOUT_SECONDS"]
    wanted = dice.choice([1, 2])
    # Connections between hosts are half of the code that detects a lost rank.
    if kind not in ("shm", "relay") and ranks > 1 and dice.random() < 0.4:
        drawn.append(("HOROVOD_HOSTNAME", "host-{parity}"))
        environment["HOROVOD_HOSTNAME"] = "host-{parity}"
    if kind == "relay" and dice.random() < 0.5:
        drawn.append(("HOROVOD_TLS", "1"))
        environment["HOROVOD_TLS"] = "1"
    while len(drawn) < wanted:
        setting = dice.choice(choices)
        value = dice.choice(setting.values)
        more = setting.environment(value)
        if more.keys() & environment.keys() or not settings.fits(environment | more, ranks, kind):
            continue
        drawn.append((setting.name, value))
        environment |= more
    return drawn, environment


def kind_settings(kind: str, at_start: bool) -> dict[str, str]:
    """Timeouts that are shorter than the time limit of a cell."""
    return {
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "5" if at_start or kind == "memory" else "10",
        "HOROVOD_HEARTBEAT_TIMEOUT_SECONDS": "3" if kind == "freeze" else "10",
    }
