# SPDX-License-Identifier: Apache-2.0
"""Runs benchmarks/network_allreduce.cc or network_step.cc with one rank per network namespace.

bench_network.py BUILD RANKS BYTES ROUNDS [--mbit RATE] [ALGORITHM...]

Prints the output of rank 0, to compare algorithms; an algorithm such as auto:tags or auto:tls
protects the wire. scripts/run_benchmarks.py calls measure().

bench_network.py BUILD RANKS 0 ROUNDS --mbit RATE --step sleep|spin [--compute MS] [KIND...]

Compares training steps with each kind of protection of the wire: none, tags, tls.
"""

from __future__ import annotations

import argparse
import base64
import json
import pathlib
import secrets
import sys

import netns

STORE_PORT = 7000
MINUTES = 60


def run_ranks(
    program: pathlib.Path, ranks: int, mbit: int | None, arguments: tuple[str, ...], store: str
) -> list[dict]:
    """Returns the output of rank 0. Without a rate the network has no limit."""
    env = {"HVD_BENCH_SECRET": base64.b64encode(secrets.token_bytes(32)).decode()}
    with netns.Network(ranks) as net:
        if mbit is not None:
            net.limit_rate(mbit)
        processes = []
        for rank in range(ranks):
            place = [str(rank), str(ranks), "wire", store.format(net.address(0))]
            processes.append(net.start(rank, [str(program), *place, *arguments], env))
            if rank == 0 and processes[0].stdout.readline() != "ready\n":
                raise RuntimeError(f"{program}: the rendezvous server did not start")
        answer, _ = processes[0].communicate(timeout=15 * MINUTES)
        if any(process.wait(timeout=MINUTES) != 0 for process in processes):
            raise RuntimeError(f"{program}: a rank failed")
    return [json.loads(line) for line in answer.splitlines()]


def measure(
    build: pathlib.Path,
    ranks: int,
    size: int,
    rounds: int,
    mbit: int | None = None,
    algorithms: tuple[str, ...] = (),
) -> list[dict]:
    """One result for each algorithm."""
    program = build / "bench" / "network_allreduce"
    arguments = (str(size), str(rounds), *algorithms)
    return run_ranks(program, ranks, mbit, arguments, f"{{}}:{STORE_PORT}")


def measure_steps(
    build: pathlib.Path,
    ranks: int,
    rounds: int,
    mbit: int | None,
    compute_ms: float,
    how: str,
    kinds: tuple[str, ...],
) -> list[dict]:
    """One result for each kind of protection; every round measures all of them in turn."""
    program = build / "bench" / "network_step"
    arguments = (str(rounds), str(compute_ms), how, *kinds)
    return run_ranks(program, ranks, mbit, arguments, "{}")


def print_steps(results: list[dict]) -> None:
    first = results[0]
    for result in results:
        best = min(result["step_ms"])
        print(
            f"{result['kind']:6} best {best:8.1f} ms = {best / min(first['step_ms']):.3f} of"
            f" {first['kind']}, CPU {min(result['cpu_ms']):6.1f} ms",
            result["step_ms"],
            result["cpu_ms"],
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("ranks", type=int)
    parser.add_argument("bytes", type=int)
    parser.add_argument("rounds", type=int)
    parser.add_argument("--mbit", type=int)
    parser.add_argument("--step", choices=("sleep", "spin"))
    parser.add_argument("--compute", type=float, default=100, help="milliseconds of a step")
    parser.add_argument("algorithms", nargs="*")
    given = parser.parse_intermixed_args()
    if given.step is not None:
        kinds = tuple(given.algorithms) or ("none", "tags", "tls")
        print_steps(
            measure_steps(
                *(given.build, given.ranks, given.rounds, given.mbit),
                *(given.compute, given.step, kinds),
            )
        )
        return 0
    results = measure(
        given.build, given.ranks, given.bytes, given.rounds, given.mbit, tuple(given.algorithms)
    )
    for result in results:
        best = min(result["us"])
        line = f"{result['algorithm']:20} {result['chosen']:20} {result['wire']:4}"
        line += f" best {best:12.1f} us"
        if given.mbit is None:
            line += f" = {best / min(result['latency_us']):.2f} one-way latencies"
        else:
            bound = 2 * (given.ranks - 1) / given.ranks * given.bytes * 8 / given.mbit
            line += f" = {100 * bound / best:.1f} % of the bound"
        print(line, result["us"], result["latency_us"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
