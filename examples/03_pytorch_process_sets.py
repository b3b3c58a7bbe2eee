# SPDX-License-Identifier: Apache-2.0
"""Process sets: half of the ranks train one model, half of them another; then they compare.

horovodrun -np 4 python examples/03_pytorch_process_sets.py
"""

import os

import digits
import horovod.torch as hvd
import torch
from torch.nn.functional import cross_entropy

ranks = range(int(os.environ.get("HOROVOD_SIZE", "1")))
teams = [hvd.ProcessSet(ranks[number::2]) for number in (0, 1) if ranks[number::2]]
# A set of all ranks exists already.
hvd.init(process_sets=teams if len(ranks) > 1 else None)
team = next((team for team in teams if team.included()), None) if len(ranks) > 1 else None
team = team or hvd.global_process_set
rate = [0.02, 0.1][hvd.rank() % 2]  # the teams use different learning rates

torch.manual_seed(1)
images, labels = digits.load()
mine = (~digits.is_test(labels)).nonzero().flatten()[team.rank() :: team.size()]
model = digits.Net()
optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), process_set=team)
hvd.broadcast_parameters(model.state_dict(), root_rank=team.ranks[0], process_set=team)

for _ in range(5):
    for batch in mine[: len(mine) // 32 * 32].split(32):
        optimizer.zero_grad()
        cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()

with torch.no_grad():
    test = digits.is_test(labels)
    right = (model(images[test]).argmax(1) == labels[test]).float().mean()
results = hvd.allgather_object((rate, float(right)))  # from all ranks, not only from the team
if hvd.rank() == 0:
    for tried, share in sorted(set(results)):
        print(f"learning rate {tried}: {100 * share:.1f} % recognised")
