"""A timeline of some steps: what happened to each gradient, and when.

    HOROVOD_TIMELINE=DYNAMIC horovodrun -np 2 python examples/07_pytorch_timeline.py

Open timeline.json in chrome://tracing or https://ui.perfetto.dev; docs/timeline.md explains it.
"""

import os

import horovod.torch as hvd
import torch

os.environ.setdefault("HOROVOD_TIMELINE", "DYNAMIC")  # has to be set on all ranks before init
hvd.init()
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())

for step in range(6):
    if step == 3:  # the first steps are not like the others
        hvd.start_timeline("timeline.json")
    optimizer.zero_grad()
    model(torch.randn(64, 256)).square().mean().backward()
    optimizer.step()
hvd.stop_timeline()
if hvd.rank() == 0:
    print("see timeline.json")
