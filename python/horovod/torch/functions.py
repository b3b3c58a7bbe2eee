# SPDX-License-Identifier: Apache-2.0
"""Model, optimizer and objects of one rank on all ranks."""

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
    """Everybody's objects, by rank; they travel by cloudpickle."""
    return _allgather_object(obj, name)


def _broadcast_all(named: Iterable[tuple[str, Tensor]], root_rank: int, set_id: Any) -> None:
    """Several tensors in place, all of them on their way before the first is waited for."""
    pending = []
    for name, tensor in named:
        # In memory a model may lie in another order on another rank.
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
    """Overwrite parameters with those of the root.

    params: a state_dict, or what model.named_parameters() or model.parameters() gives.
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
            raise ValueError(f"parameter {name!r} is no tensor but {type(value).__name__}")
    _broadcast_all(tensors, root_rank, process_set.process_set_id)


class _Placeholder:
    """Where a tensor was, in a state that travels without its tensors."""

    def __init__(self, tensor: Tensor) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def _take_tensors(state: Any, tensors: list[Tensor]) -> Any:
    """A copy of nested dicts and lists with placeholders instead of tensors."""
    if isinstance(state, Tensor) and state.layout == torch.strided and state.is_cpu:
        tensors.append(state.contiguous())
        return _Placeholder(state)
    if isinstance(state, dict):
        return {key: _take_tensors(value, tensors) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_take_tensors(value, tensors) for value in state)
    return state


def _put_tensors(state: Any, tensors: list[Tensor]) -> Any:
    """The other way round, with new tensors, which are put into `tensors`."""
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
    """Overwrite the state of an optimizer with that of the root, hyperparameters included.

    A state that is empty on the root is empty everywhere afterwards. `model` is not needed.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("the state of torch.optim.LBFGS cannot be broadcast: it is no dict")
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
