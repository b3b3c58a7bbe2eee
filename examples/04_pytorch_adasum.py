# SPDX-License-Identifier: Apache-2.0
"""Adasum: combines the steps of the ranks instead of averaging gradients.

    horovodrun -np 2 python examples/04_pytorch_adasum.py

Orthogonal steps add up, and equal steps count once. So the learning rate need not grow with the
number of ranks. The number of ranks has to be a power of two.
"""

import digits
import horovod.torch as hvd
import torch
from torch.nn.functional import cross_entropy

hvd.init()
torch.manual_seed(1)
images, labels = digits.load()
mine = (~digits.is_test(labels)).nonzero().flatten()[hvd.rank() :: hvd.size()]
model = digits.Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Adasum)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for epoch in range(5):
    for batch in mine[: len(mine) // 32 * 32].split(32):
        optimizer.zero_grad()
        loss = cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    mean_loss = hvd.allreduce(loss.detach(), name="loss")
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: loss {float(mean_loss):.4f}")
