# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from horovod import _core
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import requests

Tensor = torch.Tensor

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm1d, 2d and 3d with the mean and variance of the batches of all ranks.

    The arguments are those of torch.nn.BatchNorm1d, and process_set: the ranks that share batches.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_set = process_set

    def _check_input_dim(self, tensor: Tensor) -> None:
        if tensor.dim() < 2:
            raise ValueError(f"the input needs at least 2 dimensions, and has {tensor.dim()}")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        uses_batch = self.training or not self.track_running_stats
        if not uses_batch or self.process_set.size() == 1:
            return super().forward(input)
        running = None
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            momentum = self.momentum
            if momentum is None:  # the average over all batches so far
                momentum = 1.0 / float(self.num_batches_tracked)
            running = (self.running_mean, self.running_var, momentum)
        return _Normalize.apply(
            input, self.weight, self.bias, self.eps, running, self.process_set.process_set_id
        )


class _Normalize(torch.autograd.Function):
    """Ranks exchange count, mean and sum of squared deviations of their batches."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        running: Any,
        set_id: int,
    ) -> Tensor:
        channels = x.shape[1]
        over = [d for d in range(x.dim()) if d != 1]
        shape = [1, channels, *([1] * (x.dim() - 2))]
        # Statistics of 16-bit floats are computed with 32 bits.
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        count = x.numel() // channels
        if count > 0:
            mean = wide.mean(over)
            squares = (wide - mean.view(shape)).square().sum(over)
        else:
            mean = squares = wide.new_zeros(channels)
        own = torch.stack([torch.full_like(mean, count), mean, squares]).unsqueeze(0)
        name = "sync_batch_norm.statistics"
        counts, means, all_squares = _core.wait(
            requests.allgather(own, name, set_id, will_wait=True)
        ).unbind(1)
        # Squared deviations from the common mean: those from the mean of the rank, plus the count
        # times the squared distance of the two means.
        total = counts.sum(0)
        mean = (counts * means).sum(0) / total
        squares = (all_squares + counts * (means - mean).square()).sum(0)
        variance = squares / total
        if running is not None:
            running_mean, running_var, momentum = running
            unbiased = squares / (total - 1).clamp(min=1)
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
        inverse = torch.rsqrt(variance + eps)
        normal = (wide - mean.view(shape)) * inverse.view(shape)
        ctx.save_for_backward(normal, inverse, weight, total)
        ctx.set_id, ctx.over, ctx.shape = set_id, over, shape
        y = normal if weight is None else normal * weight.view(shape)
        y = y if bias is None else y + bias.view(shape)
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        normal, inverse, weight, total = ctx.saved_tensors
        wide = grad.to(normal.dtype)
        sums = torch.stack([wide.sum(ctx.over), (wide * normal).sum(ctx.over)])
        grad_bias, grad_weight = sums.clone()
        name = "sync_batch_norm.gradient_sums"
        how = (_core.SUM, 1.0, 1.0, ctx.set_id)
        handle = requests.allreduce_(sums, name, how, will_wait=True)
        mean_grad, mean_grad_normal = (_core.wait(handle) / total).unbind(0)
        grad_x = None
        if ctx.needs_input_grad[0]:
            projected = normal * mean_grad_normal.view(ctx.shape)
            grad_x = (wide - mean_grad.view(ctx.shape) - projected) * inverse.view(ctx.shape)
            if weight is not None:
                grad_x = grad_x * weight.view(ctx.shape)
            grad_x = grad_x.to(grad.dtype)
        if weight is not None:
            grad_weight = grad_weight.to(weight.dtype)
        return (
            grad_x,
            grad_weight if ctx.needs_input_grad[1] else None,
            grad_bias if ctx.needs_input_grad[2] else None,
            None,
            None,
            None,
        )
