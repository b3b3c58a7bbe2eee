# SPDX-License-Identifier: Apache-2.0
"""horovod.torch and torch.distributed with gloo, alternating in the same processes.

torch_steps.py RANKS ROUNDS

Prints one JSON object per scenario with the time of one step in microseconds on the slowest rank,
one figure per round: a blocking allreduce of 4 bytes, 1,000 tensors of 1 KiB, and training steps of
two models (`alone` is the step without any communication).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Callable

import horovod.torch as hvd
import torch
import torch.distributed as dist
from horovod import _core
from torch import nn

Step = Callable[[], None]


def time_step(step: Step, calls: int) -> float:
    """Microseconds of a step on the slowest rank, for which the other ranks would have to wait."""
    step()
    hvd.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        step()
    took = torch.tensor((time.perf_counter() - start) / calls * 1e6, dtype=torch.float64)
    # With a name: automatic names are numbered, and they would exceed the 1,024 tensors that the
    # response cache of the engine holds.
    return float(hvd.allreduce(took, op=hvd.Max, name="took"))


def small() -> dict[str, tuple[Step, int]]:
    x = torch.zeros(1)
    return {
        "ours": (lambda: hvd.allreduce_(x, op=hvd.Sum, name="small"), 100),
        "gloo": (lambda: dist.all_reduce(x), 30),
    }


def many() -> dict[str, tuple[Step, int]]:
    tensors = [torch.zeros(256) for _ in range(1000)]
    names = [f"many.{i}" for i in range(1000)]

    def ours() -> None:
        pairs = zip(tensors, names)
        handles = [hvd.allreduce_async_(x, name=name, op=hvd.Sum) for x, name in pairs]
        for handle in handles:
            hvd.synchronize(handle)

    def gloo() -> None:
        for work in [dist.all_reduce(x, async_op=True) for x in tensors]:
            work.wait()

    # Few steps per round: on a busy machine a short round is more likely to run undisturbed. There
    # the best of 25 rounds was 2.4 ms a step with 1 step per round, 2.7 with 5 and 4.2 with 20.
    return {"ours": (ours, 5), "gloo": (gloo, 1)}


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.past = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.way(x) + self.past(x))


def mlp() -> tuple[nn.Module, torch.Tensor]:
    layers = [part for _ in range(8) for part in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(32, 1024)


def resnet() -> tuple[nn.Module, torch.Tensor]:
    blocks = [Block(3, 16, 1), Block(16, 32, 2), Block(32, 64, 2), Block(64, 64, 1)]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(4096, 10)), torch.randn(32, 3, 32, 32)


def training(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> dict[str, tuple[Step, int]]:
    def step_of(kind: str) -> Step:
        model, data = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        if kind == "ours":
            named = [(f"{make.__name__}.{name}", p) for name, p in model.named_parameters()]
            optimizer = hvd.DistributedOptimizer(optimizer, named)
        elif kind == "gloo":
            model = nn.parallel.DistributedDataParallel(model)

        def step() -> None:
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()

        return step

    return {kind: (step_of(kind), 5) for kind in ("alone", "ours", "gloo")}


def be_rank(rounds: int, meeting_point: str) -> None:
    torch.set_num_threads(1)
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    address = f"file://{meeting_point}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=ranks)
    scenarios = {
        "4 B in Python": small(),
        "1000 tensors of 1 KiB in Python": many(),
        "MLP of 8 x 1024, batch 32": training(mlp),
        "ResNet of 9 layers, 32 x 32 pixels, batch 32": training(resnet),
    }
    for scenario, contenders in scenarios.items():
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, (step, calls) in contenders.items():
                times[name].append(round(time_step(step, calls), 3))
        if rank == 0:
            print(json.dumps({"scenario": scenario, "ranks": ranks, **times}), flush=True)
    dist.destroy_process_group()


def main(ranks: int, rounds: int) -> int:
    secret = _core.make_secret()
    store = _core.rendezvous_start(secret, "127.0.0.1", False)
    settings = {
        "HOROVOD_RENDEZVOUS": f"127.0.0.1:{_core.rendezvous_port(store)}",
        "HOROVOD_SIZE": str(ranks),
        "_HOROVOD_SECRET_KEY": secret,
        "GLOO_SOCKET_IFNAME": "lo",
    }
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "rank", str(rounds), os.path.join(folder, "store")]
        processes = [
            subprocess.Popen(command, env=os.environ | settings | {"HOROVOD_RANK": str(rank)})
            for rank in range(ranks)
        ]
        codes = [process.wait() for process in processes]
    _core.rendezvous_stop(store)
    return max(map(abs, codes))


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        be_rank(int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
