# SPDX-License-Identifier: Apache-2.0
"""Describes tensors to the engine and starts collectives; each function returns a handle.

ops.py has the public functions. Here, as in `_core`, a process set is given by its id. `will_wait`
is the submit hint: the caller waits for the operation next. The functions may be called from any
thread. They raise ValueError for tensors and arguments that the engine does not accept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import torch
from torch.utils.dlpack import from_dlpack

from horovod import _core
from horovod.common.util import check_adasum

Tensor = torch.Tensor
Splits = Union[Tensor, Sequence[int], None]
# Reduction op, prescale factor, postscale factor, and the id of the process set.
Reduction = tuple[int, float, float, Optional[int]]
_View = tuple[int, Optional[int], int, tuple[int, ...]]

_DTYPES = {
    torch.uint8: _core.UINT8,
    torch.int8: _core.INT8,
    torch.int16: _core.INT16,
    torch.int32: _core.INT32,
    torch.int64: _core.INT64,
    torch.float16: _core.FLOAT16,
    torch.float32: _core.FLOAT32,
    torch.float64: _core.FLOAT64,
    torch.bool: _core.BOOL,
    torch.bfloat16: _core.BFLOAT16,
}
for _name in ("uint16", "uint32", "uint64"):  # since PyTorch 2.3
    if hasattr(torch, _name):
        _DTYPES[getattr(torch, _name)] = getattr(_core, _name.upper())


# Views ------------------------------------------------------------------------------------------


def _complain(tensor: Any) -> None:
    """Raise the ValueError that tells why the engine cannot use a tensor in place."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"a tensor is needed, not {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise ValueError(f"layout {tensor.layout} is not supported; use sparse_allreduce_async")
    if not tensor.is_cpu:
        raise ValueError(f"device {tensor.device} is not supported; move the tensor to the CPU")
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"dtype {tensor.dtype} is not supported")
    raise ValueError("the tensor has to be contiguous; pass tensor.contiguous()")


def _in_place(tensor: Tensor) -> _View:
    try:
        dtype = _DTYPES[tensor.dtype]
        if not tensor.is_cpu or not tensor.is_contiguous():
            _complain(tensor)
        address = tensor.data_ptr()
    except (AttributeError, KeyError, RuntimeError):
        _complain(tensor)
        raise
    return address, address, dtype, tensor.shape


def _contiguous(tensor: Any) -> Tensor:
    """The tensor itself, or a contiguous copy if its elements are not contiguous."""
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
        _complain(tensor)
    if tensor.dtype not in _DTYPES or not tensor.is_cpu:
        _complain(tensor)
    return tensor.contiguous()


def _between(source: Tensor, target: Tensor | None) -> _View:
    """A view that reads `source` and writes `target`; None: `_core` allocates the output later."""
    address = None if target is None else target.data_ptr()
    return source.data_ptr(), address, _DTYPES[source.dtype], source.shape


def _tensor_of(output: _core.Output, dtype: torch.dtype) -> Tensor:
    return from_dlpack(output.__dlpack__()).view(dtype).view(output.shape)


def _memory(tensors: Sequence[Tensor]) -> list[Any]:
    """The storages that an operation keeps alive.

    The tensors themselves are not enough: a program may give a tensor another storage meanwhile.
    """
    return [tensor.untyped_storage() for tensor in tensors]


def _start(
    collective: int,
    label: str,
    name: str | None,
    views: _View | list[_View],
    sources: Sequence[Tensor],
    result: Any,
    how: Reduction,
    will_wait: bool,
    *,
    root: int = 0,
    splits: Sequence[int] | None = None,
) -> int:
    op, prescale, postscale, set_id = how
    return _core.submit(
        collective,
        label,
        name,
        views,
        process_set=set_id,
        keep=_memory(sources),
        result=result,
        op=op,
        prescale=prescale,
        postscale=postscale,
        root=root,
        splits=splits,
        will_wait=will_wait,
    )


def _check_group(tensors: Sequence[Tensor]) -> None:
    if len(tensors) == 0:
        raise ValueError("a group needs at least one tensor")


def _check_adasum(how: Reduction) -> None:
    if how[0] == _core.ADASUM:
        check_adasum(how[3])


def _no_reduction(set_id: int | None) -> Reduction:
    """For collectives that reduce nothing: the engine ignores everything except the process set."""
    return _core.SUM, 1.0, 1.0, set_id


# Collectives ------------------------------------------------------------------------------------


def allreduce_(tensor: Tensor, name: str | None, how: Reduction, will_wait: bool = False) -> int:
    op, prescale, postscale, set_id = how
    if op == _core.ADASUM:
        check_adasum(set_id)
    # Calls _core.submit directly: _start would make the call 10 % slower.
    return _core.submit(
        _core.ALLREDUCE,
        "allreduce",
        name,
        _in_place(tensor),
        process_set=set_id,
        keep=tensor.untyped_storage(),
        result=tensor,
        op=op,
        prescale=prescale,
        postscale=postscale,
        will_wait=will_wait,
    )


def allreduce(tensor: Tensor, name: str | None, how: Reduction, will_wait: bool = False) -> int:
    _check_adasum(how)
    source = _contiguous(tensor)
    target = torch.empty_like(source)
    return _start(
        _core.ALLREDUCE,
        "allreduce",
        name,
        _between(source, target),
        [source],
        target,
        how,
        will_wait,
    )


def grouped_allreduce_(
    tensors: Sequence[Tensor], name: str | None, how: Reduction, will_wait: bool = False
) -> int:
    _check_adasum(how)
    _check_group(tensors)
    group = list(tensors)
    return _start(
        _core.ALLREDUCE,
        "grouped_allreduce",
        name,
        [_in_place(tensor) for tensor in group],
        group,
        group,
        how,
        will_wait,
    )


def grouped_allreduce(
    tensors: Sequence[Tensor], name: str | None, how: Reduction, will_wait: bool = False
) -> int:
    _check_adasum(how)
    _check_group(tensors)
    sources = [_contiguous(tensor) for tensor in tensors]
    targets = [torch.empty_like(source) for source in sources]
    return _start(
        _core.ALLREDUCE,
        "grouped_allreduce",
        name,
        [_between(source, target) for source, target in zip(sources, targets)],
        sources,
        targets,
        how,
        will_wait,
    )


def allgather(tensor: Tensor, name: str | None, set_id: int | None, will_wait: bool = False) -> int:
    source = _contiguous(tensor)
    return _start(
        _core.ALLGATHER,
        "allgather",
        name,
        _between(source, None),
        [source],
        lambda outputs: _tensor_of(outputs[0], source.dtype),
        _no_reduction(set_id),
        will_wait,
    )


def grouped_allgather(
    tensors: Sequence[Tensor], name: str | None, set_id: int | None, will_wait: bool = False
) -> int:
    _check_group(tensors)
    sources = [_contiguous(tensor) for tensor in tensors]
    return _start(
        _core.ALLGATHER,
        "grouped_allgather",
        name,
        [_between(source, None) for source in sources],
        sources,
        lambda outputs: [_tensor_of(out, source.dtype) for out, source in zip(outputs, sources)],
        _no_reduction(set_id),
        will_wait,
    )


def broadcast_(
    tensor: Tensor, root: int, name: str | None, set_id: int | None, will_wait: bool = False
) -> int:
    return _start(
        _core.BROADCAST,
        "broadcast",
        name,
        _in_place(tensor),
        [tensor],
        tensor,
        _no_reduction(set_id),
        will_wait,
        root=root,
    )


def broadcast(
    tensor: Tensor, root: int, name: str | None, set_id: int | None, will_wait: bool = False
) -> int:
    source = _contiguous(tensor)
    target = torch.empty_like(source)
    return _start(
        _core.BROADCAST,
        "broadcast",
        name,
        _between(source, target),
        [source],
        target,
        _no_reduction(set_id),
        will_wait,
        root=root,
    )


def _check_splits(splits: Splits) -> Sequence[int] | None:
    if not isinstance(splits, Tensor):
        return splits
    if splits.dim() != 1:
        raise ValueError(f"splits has to be one-dimensional, not of shape {tuple(splits.shape)}")
    if splits.dtype != torch.int32:
        raise ValueError(f"splits has to be of dtype torch.int32, not {splits.dtype}")
    return splits.tolist()


def alltoall(
    tensor: Tensor, splits: Splits, name: str | None, set_id: int | None, will_wait: bool = False
) -> int:
    """The result of the handle is a pair: the rows, and the received splits as int32."""
    source = _contiguous(tensor)

    def result(outputs: list[_core.Output]) -> tuple[Tensor, Tensor]:
        received = torch.tensor(outputs[0].received_splits, dtype=torch.int32)
        return _tensor_of(outputs[0], source.dtype), received

    return _start(
        _core.ALLTOALL,
        "alltoall",
        name,
        _between(source, None),
        [source],
        result,
        _no_reduction(set_id),
        will_wait,
        splits=_check_splits(splits),
    )


def reducescatter(tensor: Tensor, name: str | None, how: Reduction, will_wait: bool = False) -> int:
    source = _contiguous(tensor)
    return _start(
        _core.REDUCESCATTER,
        "reducescatter",
        name,
        _between(source, None),
        [source],
        lambda outputs: _tensor_of(outputs[0], source.dtype),
        how,
        will_wait,
    )


def grouped_reducescatter(
    tensors: Sequence[Tensor], name: str | None, how: Reduction, will_wait: bool = False
) -> int:
    _check_group(tensors)
    sources = [_contiguous(tensor) for tensor in tensors]
    return _start(
        _core.REDUCESCATTER,
        "grouped_reducescatter",
        name,
        [_between(source, None) for source in sources],
        sources,
        lambda outputs: [_tensor_of(out, source.dtype) for out, source in zip(outputs, sources)],
        how,
        will_wait,
    )


def barrier(set_id: int | None) -> None:
    _core.wait(
        _start(_core.BARRIER, "barrier", "noname", [], [], None, _no_reduction(set_id), True)
    )
