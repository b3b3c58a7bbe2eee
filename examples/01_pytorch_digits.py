# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network to read handwritten digits, on any number of ranks.

    horovodrun -np 2 python examples/01_pytorch_digits.py
    python examples/01_pytorch_digits.py                      one rank, without a launcher

A batch has 96 images for any number of ranks, and each rank takes its share. The average of the
gradients of all ranks is the gradient of the whole batch. So all runs do the same work and end with
the same weights, except for rounding. A rank computes on one thread. With --save PREFIX each rank
writes its weights to PREFIX.<rank>.
"""

import argparse
import pathlib
import time

import digits
import horovod.torch as hvd
import torch
from torch import nn
from torch.nn.functional import cross_entropy

BATCH = 96


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--save", metavar="PREFIX")
    options = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)  # one core for each rank
    torch.manual_seed(1 + hvd.rank())
    images, labels = digits.load()
    is_test = digits.is_test(labels)

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    # Every rank starts with the weights of rank 0.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    training = (~is_test).nonzero().flatten()
    start = time.perf_counter()
    for epoch in range(options.epochs):
        order = torch.randperm(len(training), generator=torch.Generator().manual_seed(epoch))
        for batch in training[order].split(BATCH):
            share = batch[hvd.rank() :: hvd.size()]
            optimizer.zero_grad()
            # The sum, not the mean of the share: the shares of two ranks may differ by one image.
            loss = cross_entropy(model(images[share]), labels[share], reduction="sum")
            loss = loss * hvd.size() / len(batch)
            loss.backward()
            optimizer.step()
        mean_loss = hvd.allreduce(loss.detach(), name="loss")
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1} of {options.epochs}: loss {mean_loss:.4f}", flush=True)
    seconds = time.perf_counter() - start

    # Each rank tests its share of the test images.
    mine = is_test.nonzero().flatten()[hvd.rank() :: hvd.size()]
    with torch.no_grad():
        right = (model(images[mine]).argmax(1) == labels[mine]).sum()
    accuracy = float(hvd.allreduce(right, op=hvd.Sum, name="right")) / int(is_test.sum())
    if hvd.rank() == 0:
        rate = options.epochs * len(training) / seconds
        who = "1 rank recognises" if hvd.size() == 1 else f"{hvd.size()} ranks recognise"
        print(
            f"{who} {100 * accuracy:.1f} % of digits not seen before; "
            f"{seconds:.1f} s, {rate:.0f} images/s"
        )
    if options.save:
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        pathlib.Path(f"{options.save}.{hvd.rank()}").write_bytes(weights.numpy().tobytes())
    return 0 if accuracy >= 0.95 else 1


if __name__ == "__main__":
    raise SystemExit(main())
