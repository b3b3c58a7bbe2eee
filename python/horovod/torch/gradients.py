# SPDX-License-Identifier: Apache-2.0
"""How the reductions of a distributed optimizer's gradients start and end.

`optimizer` is an optimizer._DistributedOptimizer here; its class describes the attributes.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from horovod import _core
from horovod.common.basics import Sum
from horovod.common.exceptions import HorovodInternalError
from horovod.torch import ops, requests

Tensor = torch.Tensor


def reduction_of(optimizer: Any) -> requests.Reduction:
    """The reduction that the options of an optimizer ask for."""
    factor, set_id = optimizer.gradient_predivide_factor, optimizer.process_set.process_set_id
    if factor == 1.0:
        return optimizer.op, 1.0, 1.0, set_id
    # 1/f before the sum and f/size after it give the average; the sums in between are smaller.
    return Sum, 1.0 / factor, factor / (optimizer.process_set.size() or 1), set_id


# Start ------------------------------------------------------------------------------------------


def start(optimizer: Any, p: Tensor) -> tuple[Any, Any]:
    """Start reducing the gradient of `p`; returns a handle and the compression's context."""
    grad = p.grad
    if grad is None or grad.is_sparse:
        grad = unusual_grad(optimizer, p)
        if grad.is_sparse:
            return start_sparse(optimizer, p, grad), None
    tensor, context = optimizer._compression.compress(grad)
    name = optimizer._parameter_names.get(p)
    return requests.allreduce_(tensor.contiguous(), name, reduction_of(optimizer)), context


def unusual_grad(optimizer: Any, p: Tensor) -> Tensor:
    """The tensor to send for a gradient that is sparse or that this rank has not computed."""
    dims = optimizer._hvd_sparse_dims
    if p.grad is None:
        p.grad = torch.zeros_like(p)  # this rank takes part in the reduction with zeros
        # The layout has to match that of the other ranks: a dense tensor among sparse ones is a
        # mismatch. SparseAdam takes sparse gradients only; for other optimizers we use the layout
        # of the last gradient of this parameter.
        known = dims.get(p, 1 if isinstance(optimizer, torch.optim.SparseAdam) else 0)
        if known > 0:
            p.grad = p.grad.to_sparse(known)
    if not p.grad.is_sparse:
        return p.grad
    if dims.get(p) != p.grad.sparse_dim():
        optimizer._hvd_sparse_dims = {**dims, p: p.grad.sparse_dim()}
    return p.grad.to_dense() if optimizer.sparse_as_dense else p.grad


def start_sparse(optimizer: Any, p: Tensor, grad: Tensor) -> Callable[[], Tensor]:
    op, prescale, postscale, _ = reduction_of(optimizer)
    grad = grad if prescale == 1.0 else grad * prescale
    name = f"{optimizer._parameter_names.get(p)}"
    wait = ops.sparse_allreduce_async(grad, name, op, optimizer.process_set)
    return wait if postscale == 1.0 else lambda: wait() * postscale


# End --------------------------------------------------------------------------------------------


def no_result(name: str | None) -> HorovodInternalError:
    return HorovodInternalError(
        f"the reduction of the gradient {name} has no result: the job was shut down meanwhile, or "
        "its handle was passed to hvd.synchronize() before"
    )


def _put_grad(p: Tensor, grad: Tensor) -> None:
    """Make `grad` the gradient of `p`. If sparse_as_dense made it dense, make it sparse again."""
    if p.grad is None or grad.is_sparse:
        p.grad = grad
    elif p.grad.is_sparse:
        p.grad = grad.to_sparse(p.grad.sparse_dim())
    else:
        p.grad.copy_(grad)


def finish(optimizer: Any) -> None:
    """Wait for all started reductions and write the results into the gradients.

    Raises HorovodInternalError if a reduction fails or has no result.
    """
    decompress = optimizer._compression.decompress
    with torch.no_grad():
        for p, (handle, context) in optimizer._handles.items():
            if handle is None:
                continue  # a subclass has decided not to reduce it
            if callable(handle):
                grad = handle()
            else:
                output = _core.wait(handle)
                if output is None:
                    raise no_result(optimizer._parameter_names.get(p))
                grad = decompress(output, context)
            if grad is not p.grad:
                _put_grad(p, grad)


def drain(optimizer: Any) -> None:
    """Wait for all started reductions and ignore their results."""
    for handle, _ in optimizer._handles.values():
        if callable(handle):
            handle()
        elif handle is not None:
            _core.wait(handle)
