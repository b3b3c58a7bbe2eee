# SPDX-License-Identifier: Apache-2.0
"""Copies models, optimizers and objects of one rank to all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from horovod import _core
from horovod.common.objects import allgather_object as _allgather_object
from horovod.common.objects import broadcast_object
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import requests

Tensor = torch.Tensor

__all__ = [
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
]


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Return the objects of all ranks in rank order. cloudpickle serializes them."""
    return _allgather_object(obj, name)


def _broadcast_all(named: Iterable[tuple[str, Tensor]], root_rank: int, set_id: Any) -> None:
    """Broadcast several tensors in place; start all of them before waiting for the first."""
    pending = []
    for name, tensor in named:
        # The memory layout may differ between ranks, so strides cannot be sent as they are.
        whole = tensor if tensor.is_contiguous() else tensor.detach().contiguous()
        pending.append((requests.broadcast_(whole, root_rank, name, set_id), tensor, whole))
    for handle, tensor, whole in pending:
        _core.wait(handle)
        if whole is not tensor:
            with torch.no_grad():
                tensor.copy_(whole)


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Overwrite parameters with those of the root rank.

    params: a state_dict, or the result of model.named_parameters() or model.parameters().
    root_rank: a rank of the whole job.
    Raises ValueError for other types and for values that are not tensors.
    """
    if isinstance(params, Mapping):
        pairs = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, (str, bytes, Tensor)):
        items = list(params)
        pairs = [p if isinstance(p, tuple) else (str(i), p) for i, p in enumerate(items)]
    else:
        raise ValueError(f"params has to be a dict or an iterable, not {type(params).__name__}")
    tensors = []
    for name, value in pairs:
        if isinstance(value, Tensor):
            tensors.append((name, value))
        elif value is not None:
            raise ValueError(f"parameter {name!r} is not a tensor but a {type(value).__name__}")
    _broadcast_all(tensors, root_rank, process_set.process_set_id)


class _Placeholder:
    """Marks the place of a tensor in a state that is sent without its tensors."""

    def __init__(self, tensor: Tensor) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def _take_tensors(state: Any, tensors: list[Tensor]) -> Any:
    """A copy of nested dicts and lists with placeholders; the tensors are appended to `tensors`."""
    if isinstance(state, Tensor) and state.layout == torch.strided and state.is_cpu:
        tensors.append(state.contiguous())
        return _Placeholder(state)
    if isinstance(state, dict):
        return {key: _take_tensors(value, tensors) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_take_tensors(value, tensors) for value in state)
    return state


def _put_tensors(state: Any, tensors: list[Tensor]) -> Any:
    """The reverse: new tensors replace the placeholders and are appended to `tensors`."""
    if isinstance(state, _Placeholder):
        tensors.append(torch.empty(state.shape, dtype=state.dtype))
        return tensors[-1]
    if isinstance(state, dict):
        return {key: _put_tensors(value, tensors) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_put_tensors(value, tensors) for value in state)
    return state


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Overwrite the state and hyperparameters of an optimizer with those of the root rank.

    If the state is empty on the root, it is empty on all ranks afterwards.
    root_rank: a rank of the whole job.
    model: ignored.
    Raises ValueError for torch.optim.LBFGS.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("the state of torch.optim.LBFGS cannot be broadcast: it is not a dict")
    tensors: list[Tensor] = []
    is_root = _core.rank() == root_rank
    outline = _take_tensors(optimizer.state_dict(), tensors) if is_root else None
    outline = broadcast_object(outline, root_rank, "optimizer_state", process_set)
    if not is_root:
        tensors = []
        state = _put_tensors(outline, tensors)
    named = [(f"optimizer_state.{i}", tensor) for i, tensor in enumerate(tensors)]
    _broadcast_all(named, root_rank, process_set.process_set_id)
    if not is_root:
        optimizer.load_state_dict(state)
