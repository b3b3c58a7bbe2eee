# SPDX-License-Identifier: Apache-2.0
"""The optimizer for op=hvd.Adasum, which combines the steps of the ranks instead of gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Callable

import torch

from horovod import _core
from horovod.common.basics import Adasum
from horovod.torch import requests
from horovod.torch.options import Options, check_passes
from horovod.torch.parameters import trained
from horovod.torch.wrapping import Flat, users

Tensor = torch.Tensor


class _DistributedAdasumOptimizer(torch.optim.Optimizer, metaclass=Flat):
    """Takes the user's step on each rank, then combines the changes of the weights by Adasum."""

    _hvd_distributed = True

    def _hvd_set_up(self, names: dict[Tensor, str], options: Options) -> None:
        self._parameter_names = names
        self._compression = options.compression
        self.backward_passes_per_step = options.backward_passes_per_step
        self._hvd_before: dict[Tensor, Tensor] = {}  # the weights before the running step

    def _hvd_unhook(self) -> None:
        """Do nothing: gradients stay on their rank, so there are no hooks."""

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Set the attribute; any number of passes may add up, as gradients stay on their rank."""
        check_passes(passes)
        self.backward_passes_per_step = passes

    def synchronize(self) -> None:
        """Do nothing: `step` starts all reductions and waits for them."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        raise AssertionError("skip_synchronize() is not supported with op=hvd.Adasum")
        yield

    def _allreduce_grad_async(self, p: Tensor) -> tuple[int, Any]:
        """Start combining the changes of `p` in this step; returns a handle and a context."""
        delta, context = self._compression.compress(p.detach() - self._hvd_before[p])
        name = self._parameter_names.get(p)
        return requests.allreduce_(delta.contiguous(), name, (Adasum, 1.0, 1.0, 0)), context

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take the step of the user's optimizer, then combine it with those of the other ranks."""
        self._hvd_before = {p: p.detach().clone() for p in trained(self)}
        plain = users(self).step
        loss = plain() if closure is None else plain(closure)
        with torch.no_grad():
            pending = [(p, *self._allreduce_grad_async(p)) for p in self._hvd_before]
            for p, handle, context in pending:
                delta = self._compression.decompress(_core.wait(handle), context)
                p.copy_(self._hvd_before[p] + delta)
        self._hvd_before = {}
        return loss

    step.hooked = True  # see _DistributedOptimizer.step
