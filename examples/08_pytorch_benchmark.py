# SPDX-License-Identifier: Apache-2.0
"""A synthetic benchmark: measures images per second of a model on random data.

horovodrun -np 2 python examples/08_pytorch_benchmark.py --batch-size 32
"""

import argparse
import statistics
import time

import horovod.torch as hvd
import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--num-warmup-batches", type=int, default=5)
parser.add_argument("--num-batches-per-iter", type=int, default=5)
parser.add_argument("--num-iters", type=int, default=5)
parser.add_argument("--fp16-allreduce", action="store_true")
options = parser.parse_args()

hvd.init()
torch.set_num_threads(1)


def layer(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


model = nn.Sequential(
    *[layer(3, 32, 1), layer(32, 64, 2), layer(64, 64, 1), layer(64, 128, 2), layer(128, 128, 2)],
    *[nn.Flatten(), nn.Linear(2048, 10)],
)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.01),
    model.named_parameters(),
    compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
images = torch.randn(options.batch_size, 3, 32, 32)
labels = torch.randint(10, (options.batch_size,))


def train() -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


for _ in range(options.num_warmup_batches):
    train()
rates = []
for _ in range(options.num_iters):
    start = time.perf_counter()
    for _ in range(options.num_batches_per_iter):
        train()
    images_seen = options.batch_size * options.num_batches_per_iter
    rates.append(images_seen / (time.perf_counter() - start))
if hvd.rank() == 0:
    mean, spread = statistics.mean(rates), 1.96 * statistics.pstdev(rates)
    print(f"Img/sec per rank: {mean:.1f} +-{spread:.1f}")
    print(f"Total img/sec on {hvd.size()} rank(s): {hvd.size() * mean:.1f}", end="")
    print(f" +-{hvd.size() * spread:.1f}")
