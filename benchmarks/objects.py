# SPDX-License-Identifier: Apache-2.0
"""The cost of seals: broadcast_object between two ranks of this host, with and without seals.

objects.py ROUNDS

Both ways alternate in the same processes. Prints one JSON object per size. For each way it has
the time of one call in microseconds on the slowest rank (`wall`) and the CPU time of both ranks
together in user mode (`cpu`), one figure per round.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

from horovod import _core
from horovod.common import basics, objects

SIZES = {"1 KB": (1_000, 500), "100 MB": (100_000_000, 1)}  # bytes, calls per round


def seals(on: bool) -> None:
    _core.seal, _core.check_seal = _REAL if on else (lambda *_: None, lambda *_: None)


_REAL = _core.seal, _core.check_seal


def user_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def one_round(load: bytes | None, calls: int) -> tuple[float, float]:
    """Microseconds per call: wall time of the slowest rank, and CPU time of both ranks together."""
    objects.allgather_object(None, "ready")
    start, cpu = time.perf_counter(), user_seconds()
    for _ in range(calls):
        objects.broadcast_object(load, 0, "load")
    took = time.perf_counter() - start, user_seconds() - cpu
    wall, cpus = zip(*objects.allgather_object(took, "took"))
    return 1e6 * max(wall) / calls, 1e6 * sum(cpus) / calls


def measure(rounds: int) -> None:
    basics.init()
    for name, (size, calls) in SIZES.items():
        load = os.urandom(size) if basics.rank() == 0 else None
        figures: dict[str, dict[str, list[float]]] = {}
        for number in range(rounds + 1):
            for way, on in (("sealed", True), ("without", False)):
                seals(on)
                wall, cpu = one_round(load, calls)
                seals(True)
                if number == 0:
                    continue  # warm-up: the first touch of memory
                kept = figures.setdefault(way, {"wall": [], "cpu": []})
                kept["wall"].append(wall)
                kept["cpu"].append(cpu)
        if basics.rank() == 0:
            print(json.dumps({"size": name, **figures}), flush=True)
    basics.shutdown()


def main() -> None:
    if "HOROVOD_RANK" in os.environ:
        return measure(int(sys.argv[1]))
    secret = _core.make_secret()
    store = _core.rendezvous_start(secret, "127.0.0.1", False)
    settings = {
        **os.environ,
        "HOROVOD_SIZE": "2",
        "HOROVOD_RENDEZVOUS": f"127.0.0.1:{_core.rendezvous_port(store)}",
        "_HOROVOD_SECRET_KEY": secret,
    }
    command = [sys.executable, *sys.argv]
    ranks = [
        subprocess.Popen(command, env={**settings, "HOROVOD_RANK": str(rank)}) for rank in range(2)
    ]
    codes = [rank.wait() for rank in ranks]
    _core.rendezvous_stop(store)
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
