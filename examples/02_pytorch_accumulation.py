# SPDX-License-Identifier: Apache-2.0
"""Gradient accumulation: gradients of several backward passes add up before one reduction.

    horovodrun -np 2 python examples/02_pytorch_accumulation.py

The gradients are sent as float16, in two groups instead of one by one.
"""

import digits
import horovod.torch as hvd
import torch
from torch.nn.functional import cross_entropy

PIECE, PIECES = 16, 4  # images per backward pass, passes per step

hvd.init()
torch.manual_seed(1)
images, labels = digits.load()
mine = (~digits.is_test(labels)).nonzero().flatten()[hvd.rank() :: hvd.size()]

model = digits.Net()
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    model.named_parameters(),
    backward_passes_per_step=PIECES,
    compression=hvd.Compression.fp16,
    groups=2,
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

# All ranks take the same number of steps: that of the rank with the fewest images.
steps = int(hvd.allreduce(torch.tensor(len(mine) // (PIECE * PIECES)), op=hvd.Min))
for epoch in range(8):
    order = mine[torch.randperm(len(mine))]
    for step in range(steps):
        optimizer.zero_grad()
        for batch in order[step * PIECE * PIECES : (step + 1) * PIECE * PIECES].split(PIECE):
            loss = cross_entropy(model(images[batch]), labels[batch]) / PIECES
            loss.backward()  # the last pass starts the reduction
        optimizer.step()
    mean_loss = hvd.allreduce(loss.detach(), name="loss") * PIECES
    if hvd.rank() == 0:
        print(
            f"epoch {epoch + 1}: {steps} steps of {PIECE * PIECES * hvd.size()} images, loss",
            end="",
        )
        print(f" {float(mean_loss):.4f}")
