# SPDX-License-Identifier: Apache-2.0
"""Buckets: parameters whose gradients are reduced as one operation.

The argument `groups` of DistributedOptimizer defines them. A bucket starts when the gradients of
all its parameters are complete, or in `synchronize`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Callable, Union

import torch

from horovod import _core
from horovod.common.process_sets import ProcessSet
from horovod.common.util import split_list
from horovod.torch import gradients, requests
from horovod.torch.functions import broadcast_object

Tensor = torch.Tensor
Groups = Union[int, Sequence[Sequence[Tensor]], None]


class Bucket:
    """Parameters of one reduction, and the name of that reduction."""

    def __init__(self, name: str, parameters: list[Tensor]) -> None:
        self.name, self.parameters = name, parameters


def check_groups(groups: Groups) -> None:
    """Raise ValueError unless `groups` is a number, or disjoint lists of parameters."""
    if groups is None:
        return
    if isinstance(groups, bool) or not isinstance(groups, (int, list, tuple)):
        raise ValueError("groups has to be a number, or a list of lists of parameters")
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"groups cannot be negative: {groups}")
        return
    if any(not isinstance(group, (list, tuple)) for group in groups):
        raise ValueError("groups has to be a list of lists of parameters")
    seen: set[Tensor] = set()
    for parameter in (parameter for group in groups for parameter in group):
        if not isinstance(parameter, Tensor):
            raise ValueError(f"groups contains {parameter!r}, which is not a parameter")
        if parameter in seen:
            raise ValueError("a parameter is in groups twice; each may be in one group only")
        seen.add(parameter)


def make_buckets(
    names: dict[Tensor, str], groups: Groups, process_set: ProcessSet
) -> dict[Tensor, Bucket]:
    """Map each grouped parameter to its bucket; `names` has the parameters that get gradients.

    A collective operation if `groups` is a number: all ranks of the process set have to call it.
    """
    if not groups:
        return {}
    if isinstance(groups, int):
        # Ranks may list their parameters in different orders and would then split them differently,
        # so all ranks use the order of the first one.
        by_name = {name: parameter for parameter, name in names.items()}
        order = broadcast_object(
            list(by_name), process_set.ranks[0], "optimizer_groups", process_set
        )
        parts = split_list([by_name[name] for name in order], min(groups, len(order)))
    else:
        parts = [[p for p in group if p in names] for group in groups]
    made = [Bucket(names[part[0]], part) for part in parts if part]
    return {parameter: bucket for bucket in made for parameter in bucket.parameters}


def start_when_complete(optimizer: Any, bucket: Bucket) -> None:
    """Start a bucket if all its parameters have had all their backward passes of this step."""
    if all(optimizer._allreduce_delay[member] <= 0 for member in bucket.parameters):
        start(optimizer, bucket)


def start(optimizer: Any, bucket: Bucket) -> None:
    """Start reducing the gradients of a bucket, and give each of its parameters a handle."""
    compression = optimizer._compression
    members, tensors = [], []
    for p in bucket.parameters:
        grad = p.grad
        if grad is None or grad.is_sparse:
            grad = gradients.unusual_grad(optimizer, p)
        if grad.is_sparse:
            optimizer._handles[p] = gradients.start_sparse(optimizer, p, grad), None
        else:
            tensor, context = compression.compress(grad)
            members.append((p, context))
            tensors.append(tensor.contiguous())
    if not members:
        return
    how = gradients.reduction_of(optimizer)
    handle = requests.grouped_allreduce_(tensors, bucket.name, how)

    @functools.cache
    def outputs() -> list[Tensor]:
        tensors = _core.wait(handle)
        if tensors is None:
            raise gradients.no_result(bucket.name)
        return tensors

    def result_of(index: int, context: Any) -> Callable[[], Tensor]:
        return lambda: compression.decompress(outputs()[index], context)

    for index, (p, context) in enumerate(members):
        optimizer._handles[p] = result_of(index, context), None
