# SPDX-License-Identifier: Apache-2.0
"""float32 Sum allreduce of torch.distributed with gloo, between processes over loopback.

gloo_allreduce.py RANKS ROUNDS BYTES...
gloo_allreduce.py RANKS ROUNDS steps

The first form prints one JSON object per size with the time per operation in microseconds, one
figure per round: the mean of a batch on its slowest rank, as in allreduce_peers.cc. The second form
runs the steps of engine_peers.cc: every tensor is a separate operation, and all are started before
the script waits for the first.
"""

import json
import multiprocessing
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist


def time_batch(data: torch.Tensor, calls: int) -> float:
    for _ in range(min(calls, 3)):
        dist.all_reduce(data)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(data)
    took = torch.tensor([(time.perf_counter() - start) / calls * 1e6], dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def time_steps(tensors: list[torch.Tensor], calls: int) -> float:
    def step() -> None:
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()

    step()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        step()
    took = torch.tensor([(time.perf_counter() - start) / calls * 1e6], dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def resnet50() -> list[int]:
    """Elements of the 161 parameters of ResNet-50, as in resnet50.h."""
    counts = [64 * 3 * 49, 64, 64]

    def convolution(inputs: int, outputs: int, kernel: int) -> None:
        counts.extend([inputs * outputs * kernel, outputs, outputs])

    inputs = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            convolution(inputs, width, 1)
            convolution(width, width, 9)
            convolution(width, 4 * width, 1)
            if block == 0:
                convolution(inputs, 4 * width, 1)
            inputs = 4 * width
    return [*counts, 2048 * 1000, 1000]


def be_rank(rank: int, ranks: int, rounds: int, what: list[str], meeting_point: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=ranks
    )

    def report(times: list[float], **facts) -> None:
        if rank == 0:
            rounded = [round(each, 3) for each in times]
            print(json.dumps({"ranks": ranks, **facts, "gloo": rounded}), flush=True)

    if what == ["steps"]:
        many = [torch.zeros(256) for _ in range(1000)]
        layers = [torch.zeros(count) for count in resnet50()]
        report([time_steps(many, 2) for _ in range(rounds)], scenario="1000 tensors of 1 KiB")
        report([time_steps(layers, 2) for _ in range(rounds)], scenario="ResNet-50")
    else:
        for size in map(int, what):
            calls = min(max((8 << 20) // (size + 8192), 2), 500)
            data = torch.zeros(size // 4, dtype=torch.float32)
            report([time_batch(data, calls) for _ in range(rounds)], bytes=size)
    dist.destroy_process_group()


def main(ranks: int, rounds: int, what: list[str]) -> int:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # Forked, so that torch is imported only once.
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = os.path.join(folder, "store")
        processes = [
            context.Process(target=be_rank, args=(rank, ranks, rounds, what, meeting_point))
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    return max(abs(process.exitcode) for process in processes)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
