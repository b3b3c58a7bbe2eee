# SPDX-License-Identifier: Apache-2.0
"""Which samples a rank takes, when ranks come and go in the middle of an epoch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sized
from typing import Any

from torch.utils.data import Sampler

from horovod.common import basics

__all__ = ["ElasticSampler"]


class ElasticSampler(Sampler):
    """Deals out to the ranks what is left of an epoch.

    `record_batch` counts what all ranks together have done. After a new start the rest is dealt out
    anew among those who are there. All ranks get equally many: a few samples come twice for that.
    Keep it in the state: `TorchState(..., sampler=sampler)`. hvd.init() comes first.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, in another order. Call it at its end: one that is resumed goes on."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Count a batch of this size as done, on every rank."""
        self.processed_num += batch_size * self.num_replicas

    def reset(self) -> None:
        """Deal out anew what is left, to the ranks that there are now."""
        self.num_replicas = basics.size()
        self.rank = basics.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def __iter__(self) -> Iterator[int]:
        over_and_over = itertools.cycle(self.remaining_indices)
        return itertools.islice(over_and_over, self.rank, self.total_size, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples
