# SPDX-License-Identifier: Apache-2.0
"""Runs `make chaos` for a minute and tests its parts."""

import dataclasses
import itertools
import struct
import subprocess
import sys
import types

import native
import pytest
from chaos import cells, job, relay, run

SECONDS = 50  # the last cells end some seconds later


# A run that hangs is reported after 30 s, with stack traces.
@pytest.mark.timeout(240)
def test_no_disturbance_ends_in_a_hang_a_wrong_sum_or_a_wrong_name():
    done = subprocess.run(
        [
            *(sys.executable, native.ROOT / "scripts" / "run_chaos.py", native.BUILD),
            *("--seconds", str(SECONDS), "--seed", "1"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


def first_cells(seed: int, count: int) -> list[cells.Cell]:
    return list(itertools.islice(cells.cells(seed), count))


def test_a_seed_gives_the_same_cells_each_time():
    assert first_cells(7, 40) == first_cells(7, 40)
    assert first_cells(7, 40) != first_cells(8, 40)


def test_the_first_cells_have_every_disturbance_on_every_number_of_ranks():
    first = first_cells(1, len(cells.COMBINATIONS))
    assert {(cell.kind, cell.ranks) for cell in first} == set(cells.COMBINATIONS)


def packet(payload: bytes) -> bytes:
    """An IP packet from 10.78.0.1 to 10.78.0.2 with a correct TCP checksum."""
    addresses = bytes([10, 78, 0, 1, 10, 78, 0, 2])
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 40 + len(payload), 0, 0, 64, relay.TCP, 0) + addresses
    tcp = struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 5 << 4, 0, 100, 0, 0)
    pseudo_header = addresses + struct.pack("!HH", relay.TCP, 20 + len(payload))
    check = relay.checksum(pseudo_header + tcp + payload)
    return ip + tcp[:16] + struct.pack("!H", check) + tcp[18:] + payload


def test_the_relay_changes_one_bit_and_the_checksum():
    before = packet(b"weights")
    start = relay.payload_start(before)
    assert before[start:] == b"weights"
    assert relay.change_bit(before, start, 0) == packet(b"veights")
    assert relay.payload_start(packet(b"")) == len(packet(b""))


class FakeJob:
    """A job whose ranks wrote these lines and exited with 0."""

    def __init__(self, *lines: list[str]):
        self.ranks = []
        for each in lines:
            rank = job.Rank.__new__(job.Rank)
            rank.lines = each
            rank.process = types.SimpleNamespace(returncode=0, poll=lambda: 0)
            self.ranks.append(rank)

    def wait(self, limit):
        pass

    def seconds(self):
        return 1.0


def problems(kind: str, victim: int, *lines: list[str]) -> list[str]:
    cell = next(c for c in cells.cells(1) if (c.kind, c.ranks, c.at_start) == (kind, 2, False))
    cell = dataclasses.replace(cell, victim=victim)
    outcome = run.Outcome(cell)
    run.judge(cell, FakeJob(*lines), outcome)
    return [column for column, _ in outcome.problems]


def test_the_output_of_ranks_is_checked():
    named = ["ready", "error 3 barrier of set 0: rank 1: its process died", "left", "end 3 4"]
    other = ["ready", "error 3 barrier of set 0: rank 0: its process died", "left", "end 3 4"]
    leaves = ["ready", "error 5 barrier of set 0: Horovod has been shut down", "left", "end 3 4"]
    assert problems("kill", 1, named, ["ready"]) == []
    assert problems("kill", 1, other, ["ready"]) == ["wrong names"]
    assert problems("kill", 1, leaves, ["ready"]) == ["wrong names"]
    assert problems("kill", 1, ["ready", "end 3 4"], ["ready"]) == ["other"]
    assert problems("interrupt", 1, leaves, ["ready", "interrupted", "left", "end 3 4"]) == []
    assert problems("interrupt", 1, leaves, ["ready"]) == ["other"]
    assert problems("nothing", 0, ["wrong t.1"], ["end 3 4"]) == ["wrong sums"]
    assert problems("nothing", 0, ["early t.1"], ["end 3 4"]) == ["hangs"]
    assert problems("nothing", 0, named, ["end 3 4"]) == ["other"]
    again = ["starved 8 no memory", "left", "again 0 ", "end 3 4"]
    assert problems("memory", 1, [*named, "again 0 "], again) == []
    assert problems("memory", 1, [*named, "again 4 timeout"], again) == ["other"]
