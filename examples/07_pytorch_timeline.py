# SPDX-License-Identifier: Apache-2.0
"""A timeline of some steps: gradients are reduced while backward() still runs.

    HOROVOD_TIMELINE=DYNAMIC horovodrun -np 2 python examples/07_pytorch_timeline.py

Prints when each gradient of the last step was reduced. Open timeline.json in chrome://tracing or
https://ui.perfetto.dev to see the same and more; docs/timeline.md explains it.
"""

import json
import os
import time

import horovod.torch as hvd
import torch

os.environ.setdefault("HOROVOD_TIMELINE", "DYNAMIC")  # has to be set on all ranks before init
hvd.init()
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())

for step in range(6):
    if step == 3:  # the first steps include one-time work
        hvd.start_timeline("timeline.json")
    optimizer.zero_grad()
    loss = model(torch.randn(64, 1024)).square().mean()
    begin = time.time()
    loss.backward()
    end = time.time()
    optimizer.step()
hvd.stop_timeline()

if hvd.rank() == 0:
    with open("timeline.json") as file:
        events = json.load(file)
    names = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    # Times in milliseconds since the begin of backward().
    zero = events[0]["args"]["start_time_since_epoch_in_micros"]
    when = {"B": {}, "E": {}}  # the last event of each name
    for event in events:
        if event.get("name") == "ALLREDUCE" or (event["ph"] == "E" and "args" in event):
            when[event["ph"]][names[event["pid"]]] = (zero + event["ts"]) / 1e3 - begin * 1e3
    took = (end - begin) * 1e3
    for name, start in when["B"].items():
        print(f"{name:20} {start:6.2f} to {when['E'][name]:6.2f} ms")
    early = sum(start < took for start in when["B"].values())
    print(f"{early} of {len(when['B'])} began before backward ended, after {took:.2f} ms")
    print("see timeline.json")
