# SPDX-License-Identifier: Apache-2.0
"""Alltoall: sends each row to the rank that owns its key; the numbers of rows may differ.

    horovodrun -np 2 python examples/06_pytorch_alltoall.py

A program looks up a table this way if the table is too large for one rank: rank r owns the keys k
with k % size == r.
"""

import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(hvd.rank())
size, rank = hvd.size(), hvd.rank()
keys = torch.randint(0, 100, (10 + 5 * rank,))

owners = keys % size
order = owners.argsort(stable=True)
splits = torch.bincount(owners, minlength=size).int()
asked, received = hvd.alltoall(keys[order], splits, name="keys")
assert bool((asked % size == rank).all()), "a key came to a rank that does not own it"

answers = asked.float().square()  # the owner looks up the values
found, _ = hvd.alltoall(answers, received, name="answers")  # back to the ranks that asked
values = torch.empty(len(keys))
values[order] = found
assert torch.equal(values, keys.float().square())
print(f"rank {rank} asked for {splits.tolist()} keys of each rank and answered {received.tolist()}")
