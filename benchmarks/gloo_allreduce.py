"""float32 Sum allreduce of torch.distributed with gloo, between processes on the loopback.

gloo_allreduce.py RANKS ROUNDS BYTES...

Prints one JSON object per size with the time per operation in microseconds, one figure per round:
the mean of a batch on its slowest rank, as allreduce_peers.cc has it.
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


def be_rank(rank: int, ranks: int, rounds: int, sizes: list[int], meeting_point: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=ranks
    )
    for size in sizes:
        calls = min(max((8 << 20) // (size + 8192), 2), 500)
        data = torch.zeros(size // 4, dtype=torch.float32)
        times = [round(time_batch(data, calls), 3) for _ in range(rounds)]
        if rank == 0:
            print(json.dumps({"ranks": ranks, "bytes": size, "gloo": times}), flush=True)
    dist.destroy_process_group()


def main(ranks: int, rounds: int, sizes: list[int]) -> int:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # Forked, so that torch is imported once.
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = os.path.join(folder, "store")
        processes = [
            context.Process(target=be_rank, args=(rank, ranks, rounds, sizes, meeting_point))
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    return max(abs(process.exitcode) for process in processes)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), [int(each) for each in sys.argv[3:]]))
