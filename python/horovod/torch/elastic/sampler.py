# SPDX-License-Identifier: Apache-2.0
"""Assigns samples to ranks when the number of ranks changes during an epoch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sized
from typing import Any

from torch.utils.data import Sampler

from horovod.common import basics

__all__ = ["ElasticSampler"]


class ElasticSampler(Sampler):
    """Divides the remaining samples of an epoch among the ranks.

    `record_batch` counts the samples that all ranks together have processed. After a restart the
    remaining samples are divided among the ranks of the new job. All ranks get the same number of
    samples; for that, a few samples may be used twice. Pass the sampler to the state:
    `TorchState(..., sampler=sampler)`. Call hvd.init() first.

    shuffle: shuffle the samples; the order depends on `seed` and on the epoch.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch in another order.

        Call it at the end of the epoch before: after a restart, a call would drop the progress.
        """
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Count a batch of this size as processed on every rank."""
        self.processed_num += batch_size * self.num_replicas

    def reset(self) -> None:
        """Divide the remaining samples among the current ranks."""
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
