# SPDX-License-Identifier: Apache-2.0
"""Ranks with different amounts of data: a rank without more data calls hvd.join().

horovodrun -np 2 python examples/05_pytorch_join.py
"""

import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(hvd.rank())
batches = 3 + 2 * hvd.rank()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# The sum over the ranks that still have data; a rank that has joined contributes zeros.
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Sum)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for _ in range(batches):
    optimizer.zero_grad()
    x = torch.randn(8, 4)
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
last = hvd.join()
print(f"rank {hvd.rank()} had {batches} batches; rank {last} was the last")
# A rank that joined early has missed the last steps, so it takes the weights of the last rank.
hvd.broadcast_parameters(model.state_dict(), root_rank=last)
