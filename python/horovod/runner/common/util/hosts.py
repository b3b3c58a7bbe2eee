# SPDX-License-Identifier: Apache-2.0
"""Hosts, their slots and the assignment of ranks to them, as in horovodrun."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable

_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>\w[\w.-]*))(?::(?P<slots>[0-9]+))?")


@dataclasses.dataclass
class HostInfo:
    hostname: str
    slots: int

    @staticmethod
    def from_string(host_string: str) -> HostInfo:
        """Parse "h1:4" or "[::1]:4". ValueError for another form."""
        match = _HOST.fullmatch(host_string.strip())
        if match is None or match["slots"] is None:
            raise ValueError(f'"{host_string}": accepted is host:slots, as in h1:4,h2:4 or [::1]:4')
        return HostInfo(match["v6"] or match["name"], int(match["slots"]))


@dataclasses.dataclass
class SlotInfo:
    """The rank of a process: among all, on its host, and among hosts that have its local rank."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int
    cross_size: int


def parse_hosts(hosts_string: str) -> list[HostInfo]:
    """Parse "h1:4,h2:4". The slots of a host that is named twice are added. ValueError as above."""
    slots: dict[str, int] = {}
    for part in hosts_string.split(","):
        host = HostInfo.from_string(part)
        slots[host.hostname] = slots.get(host.hostname, 0) + host.slots
    return [HostInfo(name, count) for name, count in slots.items() if count > 0]


def parse_hosts_and_slots(hosts: str) -> tuple[list[str], dict[str, int]]:
    """Parse "h1:4,h2:4" into the names, and the slots by name."""
    parsed = parse_hosts(hosts)
    return [host.hostname for host in parsed], {host.hostname: host.slots for host in parsed}


def parse_host_files(filename: str) -> str:
    """Read "h1:4,h2:4" from a file with one line `h1 slots=4`, `h1:4` or `h1` per host.

    Raises ValueError for a malformed line, or a file without hosts.
    """
    hosts = []
    with open(filename, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = re.sub(r"\s*=\s*", "=", line.partition("#")[0]).split()
            if not words:
                continue
            match = _HOST.fullmatch(words[0])
            slots = dict(word.split("=", 1) for word in words[1:] if "=" in word).get("slots")
            slots = slots or (match and match["slots"]) or "1"
            if match is None or not slots.isdecimal():
                raise ValueError(
                    f'{filename}:{number}: "{line.strip()}": accepted is a host and its slots, as '
                    'in "h1 slots=4" or "h1:4"'
                )
            hosts.append(f"[{match['v6']}]:{slots}" if match["v6"] else f"{match['name']}:{slots}")
    if not hosts:
        raise ValueError(f"{filename}: the file has no hosts")
    return ",".join(hosts)


def get_host_assignments(
    hosts: Iterable[HostInfo], min_num_proc: int, max_num_proc: int | None = None
) -> list[SlotInfo]:
    """Assign ranks to hosts in the order of the hosts, slot by slot.

    There are as many ranks as slots, and at most max_num_proc. For exactly n ranks, as
    `horovodrun -np n` starts them, pass n for both.
    Raises ValueError if there are fewer than min_num_proc slots.
    """
    hosts = list(hosts)
    total = sum(host.slots for host in hosts)
    if total < min_num_proc:
        raise ValueError(
            f"Requested more processes ({min_num_proc}) than there are slots ({total}): add hosts "
            "or slots"
        )
    size = total if max_num_proc is None else min(total, max(min_num_proc, max_num_proc))
    assignments: list[tuple[str, int, int]] = []  # host, local rank, local size
    for host in hosts:
        local_size = min(host.slots, size - len(assignments))
        assignments += [(host.hostname, local_rank, local_size) for local_rank in range(local_size)]
    hosts_with = collections.Counter(local_rank for _, local_rank, _ in assignments)
    seen: collections.Counter[int] = collections.Counter()
    slots = []
    for rank, (name, local_rank, local_size) in enumerate(assignments):
        across = (seen[local_rank], hosts_with[local_rank])
        slots.append(SlotInfo(name, rank, local_rank, across[0], size, local_size, across[1]))
        seen[local_rank] += 1
    return slots
