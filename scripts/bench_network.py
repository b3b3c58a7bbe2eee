"""Runs benchmarks/network_allreduce.cc with one rank per network namespace.

bench_network.py BUILD RANKS BYTES ROUNDS [--mbit RATE] [ALGORITHM...]

prints what rank 0 says, to compare algorithms; scripts/run_benchmarks.py calls measure().
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


def measure(
    build: pathlib.Path,
    ranks: int,
    size: int,
    rounds: int,
    mbit: int | None = None,
    algorithms: tuple[str, ...] = (),
) -> list[dict]:
    """One result for each algorithm; without a rate the wire is as fast as the machine."""
    program = str(build / "bench" / "network_allreduce")
    env = {"HVD_BENCH_SECRET": base64.b64encode(secrets.token_bytes(32)).decode()}
    with netns.Network(ranks) as net:
        if mbit is not None:
            net.limit_rate(mbit)
        store = f"{net.address(0)}:{STORE_PORT}"
        processes = []
        for rank in range(ranks):
            arguments = [str(rank), str(ranks), "wire", store, str(size), str(rounds), *algorithms]
            processes.append(net.start(rank, [program, *arguments], env))
            if rank == 0 and processes[0].stdout.readline() != "ready\n":
                raise RuntimeError(f"{program}: the store did not start")
        answer, _ = processes[0].communicate(timeout=5 * MINUTES)
        if any(process.wait(timeout=MINUTES) != 0 for process in processes):
            raise RuntimeError(f"{program}: a rank failed")
    return [json.loads(line) for line in answer.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("ranks", type=int)
    parser.add_argument("bytes", type=int)
    parser.add_argument("rounds", type=int)
    parser.add_argument("--mbit", type=int)
    parser.add_argument("algorithms", nargs="*")
    given = parser.parse_intermixed_args()
    results = measure(
        given.build, given.ranks, given.bytes, given.rounds, given.mbit, tuple(given.algorithms)
    )
    for result in results:
        best = min(result["us"])
        line = f"{result['algorithm']:20} {result['chosen']:20} best {best:12.1f} us"
        if given.mbit is None:
            line += f" = {best / min(result['latency_us']):.2f} one-way latencies"
        else:
            bound = 2 * (given.ranks - 1) / given.ranks * given.bytes * 8 / given.mbit
            line += f" = {100 * bound / best:.1f} % of the bound"
        print(line, result["us"], result["latency_us"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
