# SPDX-License-Identifier: Apache-2.0
"""Gradients of Keras with PyTorch; implements horovod._keras.backends.Backend.

Nothing is compiled. All gradients are reduced together, after the last one is computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import horovod.torch as hvd
from horovod._keras.settings import Settings
from horovod.common.groups import check_reduction, grouped
from horovod.torch.compression import Compression  # noqa: F401 (part of Backend)


def tensor(value: Any) -> torch.Tensor:
    return torch.as_tensor(value)


def array(value: Any) -> np.ndarray:
    """A value of any kind as an array of the dtype that PyTorch gives it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    return torch.as_tensor(value).detach().cpu().numpy()


result = tensor
scratch = contextlib.nullcontext


def current_graph() -> Any:
    """PyTorch runs without a graph, so one object identifies all code."""
    return Accumulator


def check(settings: Settings) -> None:
    check_reduction(settings.op, settings.gradient_predivide_factor, settings.groups, id)


def reduce(
    gradients: list[Any],
    variables: list[Any],
    settings: Settings,
    name: str | None,
    local_variables: list[Any],
) -> list[Any]:
    if not settings.is_distributed():
        return gradients
    results, shared = settings.set_apart(gradients, variables, local_variables)
    parts = [list(shared)]
    if settings.groups:
        parts = grouped(list(shared), settings.groups, variables, id)
    factor = settings.gradient_predivide_factor
    waiting = []
    for part in (part for part in parts if part):
        packed = [settings.compression.compress(results[i].contiguous()) for i in part]
        handle = hvd.grouped_allreduce_async(
            [tensor for tensor, _ in packed],
            name=settings.name_of(name, shared[part[0]]),
            op=settings.op,
            prescale_factor=1.0 / factor,
            postscale_factor=factor,
            process_set=settings.process_set,
        )
        waiting.append((part, packed, handle))
    for part, packed, handle in waiting:
        for i, (_, context), reduced in zip(part, packed, hvd.synchronize(handle)):
            results[i] = settings.compression.decompress(reduced, context)
    return results


def all_true(flag: Any, settings: Settings, name: str) -> Any:
    """Whether a condition holds on every rank."""
    if not settings.is_distributed():
        return flag
    ones = torch.as_tensor(flag).to(torch.int32)
    return hvd.allreduce(ones, name=name, op=hvd.Min, process_set=settings.process_set).bool()


class Accumulator:
    """Adds up the gradients of several passes."""

    def __init__(self, passes: int, average: bool, sparse_as_dense: bool) -> None:
        self.passes, self.average = passes, average
        self.forget()

    def forget(self) -> None:
        """Drop the passes of a step that has begun."""
        self.done = 0
        self.sums: list[torch.Tensor | None] = []

    def add(
        self,
        gradients: list[Any],
        variables: list[Any],
        reduce: Callable[[list[Any], list[Any]], list[Any]],
    ) -> list[Any]:
        """Add the gradients of one pass; returns the sums, after the last pass the reduced ones."""
        if self.done == 0:
            self.sums = [None if g is None else g.detach().clone() for g in gradients]
        else:
            for total, gradient in zip(self.sums, gradients):
                if total is not None and gradient is not None:
                    total.add_(gradient)
        self.done += 1
        sums = self.sums
        if self.done < self.passes:
            return sums
        self.forget()
        if self.average:
            sums = [None if total is None else total / self.passes for total in sums]
        return reduce(sums, variables)

    def step(self, ready: list[Any], apply: Callable[[], Any], skip: Callable[[], Any]) -> None:
        """Call `apply` if the last pass has been added, otherwise `skip`."""
        apply() if self.done == 0 else skip()
