# SPDX-License-Identifier: Apache-2.0
"""Collectives as operators of torch, for code in torch.compile(fullgraph=True).

Other code does not use them: a call of an operator costs 30 us, a call of a function of requests.py
1 us. torch reads the annotations in this file and understands only the older way to write them.
"""

# ruff: noqa: UP006, UP035
from typing import Any, Callable, List, Optional, Tuple

import torch

from horovod import _core
from horovod.common.process_sets import place_in
from horovod.torch import requests

Tensor = torch.Tensor

# PyTorch has operators in Python since version 2.4.
AVAILABLE = hasattr(torch.library, "custom_op")


def _never() -> bool:
    return False


is_compiling: Callable[[], bool] = (
    getattr(torch.compiler, "is_compiling", _never) if AVAILABLE else _never
)


def _operator(name: str) -> Any:
    if AVAILABLE:
        return torch.library.custom_op(f"horovod::{name}", mutates_args=())
    return lambda function: function


@_operator("allreduce")
def allreduce(
    tensor: Tensor,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: int,
) -> Tensor:
    how = (op, prescale, postscale, process_set)
    return _core.wait(requests.allreduce(tensor, name, how, will_wait=True))


@_operator("grouped_allreduce")
def grouped_allreduce(
    tensors: List[Tensor],
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: int,
) -> List[Tensor]:
    how = (op, prescale, postscale, process_set)
    return _core.wait(requests.grouped_allreduce(tensors, name, how, will_wait=True))


@_operator("allgather")
def allgather(tensor: Tensor, name: Optional[str], process_set: int) -> Tensor:
    return _core.wait(requests.allgather(tensor, name, process_set, will_wait=True))


@_operator("all_rows")
def all_rows(tensor: Tensor, rows: int, name: Optional[str], process_set: int) -> Tensor:
    """An allgather whose result is known to have `rows` rows."""
    return _core.wait(requests.allgather(tensor, name, process_set, will_wait=True))


@_operator("own_rows")
def own_rows(tensor: Tensor, rows: int, name: Optional[str], process_set: int) -> Tensor:
    """The rows of the average of `tensor` that belong to this rank's input of an allgather."""
    from horovod.torch.autograd import own_rows as of_average

    return of_average(tensor, rows, name, process_set).clone()


@_operator("broadcast")
def broadcast(tensor: Tensor, root: int, name: Optional[str], process_set: int) -> Tensor:
    return _core.wait(requests.broadcast(tensor, root, name, process_set, will_wait=True))


@_operator("alltoall")
def alltoall(
    tensor: Tensor, splits: Optional[Tensor], name: Optional[str], process_set: int
) -> Tuple[Tensor, Tensor]:
    return _core.wait(requests.alltoall(tensor, splits, name, process_set, will_wait=True))


@_operator("reducescatter")
def reducescatter(
    tensor: Tensor,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: int,
) -> Tensor:
    how = (op, prescale, postscale, process_set)
    return _core.wait(requests.reducescatter(tensor, name, how, will_wait=True))


# Shapes -----------------------------------------------------------------------------------------


def _unknown_rows(tensor: Tensor) -> Tensor:
    rows = torch.library.get_ctx().new_dynamic_size()
    return tensor.new_empty([rows, *tensor.shape[1:]])


def _scattered(tensor: Tensor, process_set: int) -> Tensor:
    rank, size = place_in(process_set)
    rows, more = tensor.shape[0] // size, tensor.shape[0] % size
    return tensor.new_empty([rows + (1 if rank < more else 0), *tensor.shape[1:]])


# Gradients, as in autograd.py --------------------------------------------------------------------


def _grad_name(name: Optional[str]) -> Optional[str]:
    return None if name is None else f"{name}.grad"


def _register() -> None:
    allreduce.register_fake(lambda tensor, *how: torch.empty_like(tensor))
    grouped_allreduce.register_fake(lambda tensors, *how: [torch.empty_like(t) for t in tensors])
    allgather.register_fake(lambda tensor, name, process_set: _unknown_rows(tensor))
    for operator in (all_rows, own_rows):
        operator.register_fake(
            lambda tensor, rows, name, process_set: tensor.new_empty([rows, *tensor.shape[1:]])
        )
    broadcast.register_fake(lambda tensor, *how: torch.empty_like(tensor))
    alltoall.register_fake(
        lambda tensor, splits, name, process_set: (
            _unknown_rows(tensor),
            torch.empty([place_in(process_set)[1]], dtype=torch.int32),
        )
    )
    reducescatter.register_fake(
        lambda tensor, name, op, pre, post, process_set: _scattered(tensor, process_set)
    )

    def keep_how(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.how = inputs[1:]

    def of_allreduce(ctx: Any, grad: Tensor) -> Any:
        name, *how = ctx.how
        return (allreduce(grad, _grad_name(name), *how), *([None] * 5))

    def of_group(ctx: Any, grads: List[Tensor]) -> Any:
        name, *how = ctx.how
        return (grouped_allreduce(list(grads), _grad_name(name), *how), *([None] * 5))

    def keep_rows(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.rows, ctx.name, ctx.process_set = inputs[0].shape[0], *inputs[1:]

    def of_allgather(ctx: Any, grad: Tensor) -> Any:
        return own_rows(grad, ctx.rows, ctx.name, ctx.process_set), None, None

    def of_broadcast(ctx: Any, grad: Tensor) -> Any:
        root, name, process_set = ctx.how
        grad = allreduce(grad, _grad_name(name), _core.AVERAGE, 1.0, 1.0, process_set)
        return grad if _core.rank() == root else torch.zeros_like(grad), None, None, None

    def keep_rows_and_how(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.rows, ctx.how = inputs[0].shape[0], inputs[1:]

    def of_reducescatter(ctx: Any, grad: Tensor) -> Any:
        name, op, pre, post, process_set = ctx.how
        factor = pre * post * (place_in(process_set)[1] if op == _core.SUM else 1)
        # PyTorch 2.6 rejects a gradient unless it can prove that its shape is that of the tensor.
        grads = all_rows(grad * factor, ctx.rows, _grad_name(name), process_set)
        return (grads, *([None] * 5))

    allreduce.register_autograd(of_allreduce, setup_context=keep_how)
    grouped_allreduce.register_autograd(of_group, setup_context=keep_how)
    allgather.register_autograd(of_allgather, setup_context=keep_rows)
    broadcast.register_autograd(of_broadcast, setup_context=keep_how)
    reducescatter.register_autograd(of_reducescatter, setup_context=keep_rows_and_how)


if AVAILABLE:
    _register()
