# SPDX-License-Identifier: Apache-2.0
"""Gradients of collectives. Each is another collective with the suffix `.grad` in its name."""

from __future__ import annotations

from typing import Any

import torch

from horovod import _core
from horovod.common.process_sets import place_in
from horovod.torch import requests

Tensor = torch.Tensor


def needs_grad(*tensors: Any) -> bool:
    """Whether a call has to use autograd, which costs some microseconds."""
    for tensor in tensors:
        if isinstance(tensor, Tensor) and tensor.requires_grad:
            return torch.is_grad_enabled()
    return False


def _grad_name(name: str | None) -> str | None:
    return None if name is None else f"{name}.grad"


class Allreduce(torch.autograd.Function):
    """The gradient is reduced in the same way."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, name: str | None, how: requests.Reduction) -> Tensor:
        ctx.name, ctx.how = name, how
        return _core.wait(requests.allreduce(tensor, name, how, will_wait=True))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return Allreduce.apply(grad, _grad_name(ctx.name), ctx.how), None, None


class GroupedAllreduce(torch.autograd.Function):
    """As Allreduce, for each tensor of a group."""

    @staticmethod
    def forward(ctx: Any, name: str | None, how: requests.Reduction, *tensors: Tensor) -> Any:
        ctx.name, ctx.how = name, how
        return tuple(_core.wait(requests.grouped_allreduce(tensors, name, how, will_wait=True)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return (None, None, *GroupedAllreduce.apply(_grad_name(ctx.name), ctx.how, *grads))


def own_rows(grad: Tensor, rows: int, name: str | None, set_id: int) -> Tensor:
    """The part of the average gradient that belongs to the `rows` rows of this rank."""
    own = torch.tensor([rows])
    rows_of_all = _core.wait(
        requests.allgather(own, None if name is None else f"{name}.rows", set_id, will_wait=True)
    )
    how = (_core.AVERAGE, 1.0, 1.0, set_id)
    grad = _core.wait(requests.allreduce(grad, _grad_name(name), how, will_wait=True))
    start = int(rows_of_all[: place_in(set_id)[0]].sum())
    return grad.narrow(0, start, rows)


class Allgather(torch.autograd.Function):
    """The gradient is averaged; each rank takes the part for its own rows."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, name: str | None, set_id: int) -> Tensor:
        ctx.rows = tensor.shape[0] if tensor.dim() else 0
        ctx.name, ctx.set_id = name, set_id
        return _core.wait(requests.allgather(tensor, name, set_id, will_wait=True))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return own_rows(grad, ctx.rows, ctx.name, ctx.set_id), None, None


class GroupedAllgather(torch.autograd.Function):
    """As Allgather, for each tensor of a group."""

    @staticmethod
    def forward(ctx: Any, name: str | None, set_id: int, *tensors: Tensor) -> Any:
        ctx.rows = [tensor.shape[0] for tensor in tensors]
        ctx.name, ctx.set_id = name, set_id
        return tuple(_core.wait(requests.grouped_allgather(tensors, name, set_id, will_wait=True)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        names = [None if ctx.name is None else f"{ctx.name}.{i}" for i in range(len(grads))]
        parts = zip(grads, ctx.rows, names)
        return (None, None, *[own_rows(*part, ctx.set_id) for part in parts])


class Broadcast(torch.autograd.Function):
    """The gradient of the root is the average; the gradient of the other ranks is zero."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root: int, name: str | None, set_id: int) -> Tensor:
        ctx.root, ctx.name, ctx.set_id = root, name, set_id
        return _core.wait(requests.broadcast(tensor, root, name, set_id, will_wait=True))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        how = (_core.AVERAGE, 1.0, 1.0, ctx.set_id)
        grad = _core.wait(requests.allreduce(grad, _grad_name(ctx.name), how, will_wait=True))
        return grad if _core.rank() == ctx.root else torch.zeros_like(grad), None, None, None


class Alltoall(torch.autograd.Function):
    """The gradient of each row is sent back to the rank that sent the row."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, splits: requests.Splits, name: str | None, set_id: int
    ) -> Any:
        handle = requests.alltoall(tensor, splits, name, set_id, will_wait=True)
        output, received = _core.wait(handle)
        ctx.rows, ctx.name, ctx.set_id = tensor.shape[0], name, set_id
        ctx.received = received.tolist()
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> Any:
        handle = requests.alltoall(
            grad, ctx.received, _grad_name(ctx.name), ctx.set_id, will_wait=True
        )
        back = _core.wait(handle)[0]
        # Rows beyond the sum of the splits were not sent, so their gradient is zero.
        missing = ctx.rows - back.shape[0]
        if missing > 0:
            back = torch.cat([back, back.new_zeros(missing, *back.shape[1:])])
        return back, None, None, None


def _scattered_grad(grad: Tensor, op: int, prescale: float, postscale: float, set_id: int) -> Any:
    factor = prescale * postscale
    if op == _core.SUM:
        factor *= place_in(set_id)[1]
    return grad * factor


class Reducescatter(torch.autograd.Function):
    """The gradient is the concatenation of the scaled gradients of all ranks."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, name: str | None, how: requests.Reduction) -> Tensor:
        ctx.name, ctx.how = name, how
        return _core.wait(requests.reducescatter(tensor, name, how, will_wait=True))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        grad = _scattered_grad(grad, *ctx.how)
        gathered = requests.allgather(grad, _grad_name(ctx.name), ctx.how[-1], will_wait=True)
        return _core.wait(gathered), None, None


class GroupedReducescatter(torch.autograd.Function):
    """As Reducescatter, for each tensor of a group."""

    @staticmethod
    def forward(ctx: Any, name: str | None, how: requests.Reduction, *tensors: Tensor) -> Any:
        ctx.name, ctx.how = name, how
        return tuple(_core.wait(requests.grouped_reducescatter(tensors, name, how, will_wait=True)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        grads = tuple(_scattered_grad(grad, *ctx.how) for grad in grads)
        gathered = requests.grouped_allgather(
            grads, _grad_name(ctx.name), ctx.how[-1], will_wait=True
        )
        return (None, None, *_core.wait(gathered))
