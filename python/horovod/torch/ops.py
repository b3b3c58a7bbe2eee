# SPDX-License-Identifier: Apache-2.0
"""Collectives on tensors.

Each has up to four forms: `x` waits and returns a new tensor, through which gradients flow; `x_`
works in place; `x_async` and `x_async_` return a handle for `synchronize`. A tensor may be dropped
while it is in flight; its values are not to be touched before `synchronize`.

An operation without a name gets a number, so ranks have to start those of a process set in the same
order; with names any order will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch

from horovod import _core
from horovod.common.basics import Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import reduce_op
from horovod.torch import autograd, compiled, requests
from horovod.torch.compression import Compression, Compressor

Tensor = torch.Tensor

__all__ = [
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "sparse_allreduce_async",
    "synchronize",
]


# Handles ----------------------------------------------------------------------------------------


def poll(handle: int) -> bool:
    """Whether an operation is done, well or not; `synchronize` then returns at once."""
    return _core.poll(handle)


def synchronize(handle: int) -> Any:
    """Wait for an operation and return its result; None if somebody has done so before."""
    return _core.wait(handle)


def _member_names(name: str | None, count: int) -> list[str | None]:
    """For groups that compiled code takes apart."""
    return [None if name is None else f"{name}_{i + 1}of{count}" for i in range(count)]


# Allreduce --------------------------------------------------------------------------------------


def allreduce_async_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start reducing `tensor` in place on every rank."""
    if op is None or average is not None:
        op = reduce_op(op, average)
    how = (op, prescale_factor, postscale_factor, process_set.process_set_id)
    return requests.allreduce_(tensor, name, how)


def allreduce_async(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start reducing `tensor` into a new one."""
    how = (reduce_op(op, average), prescale_factor, postscale_factor, process_set.process_set_id)
    return requests.allreduce(tensor, name, how)


def allreduce_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Reduce `tensor` in place: afterwards it is the average of all ranks', or what `op` says."""
    if op is None or average is not None:
        op = reduce_op(op, average)
    how = (op, prescale_factor, postscale_factor, process_set.process_set_id)
    return _core.wait(requests.allreduce_(tensor, name, how, True))


def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """The average of all ranks' tensors, or what `op` says, scaled before and after."""
    how = (reduce_op(op, average), prescale_factor, postscale_factor, process_set.process_set_id)
    compressed, context = compression.compress(tensor)
    if compiled.is_compiling():
        reduced = compiled.allreduce(compressed, name, *how)
    elif autograd.needs_grad(compressed):
        reduced = autograd.Allreduce.apply(compressed, name, how)
    else:
        reduced = _core.wait(requests.allreduce(compressed, name, how, will_wait=True))
    return compression.decompress(reduced, context)


def grouped_allreduce_async_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start reducing several tensors in place, as one operation."""
    how = (reduce_op(op, average), prescale_factor, postscale_factor, process_set.process_set_id)
    return requests.grouped_allreduce_(tensors, name, how)


def grouped_allreduce_async(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start reducing several tensors into new ones, as one operation."""
    how = (reduce_op(op, average), prescale_factor, postscale_factor, process_set.process_set_id)
    return requests.grouped_allreduce(tensors, name, how)


def grouped_allreduce_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Reduce several tensors in place, as one operation."""
    how = (reduce_op(op, average), prescale_factor, postscale_factor, process_set.process_set_id)
    return _core.wait(requests.grouped_allreduce_(tensors, name, how, will_wait=True))


def grouped_allreduce(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """The reductions of several tensors, as one operation."""
    how = (reduce_op(op, average), prescale_factor, postscale_factor, process_set.process_set_id)
    pairs = [compression.compress(tensor) for tensor in tensors]
    sources = [compressed for compressed, _ in pairs]
    if compiled.is_compiling():
        reduced = compiled.grouped_allreduce(sources, name, *how)
    elif autograd.needs_grad(*sources):
        reduced = autograd.GroupedAllreduce.apply(name, how, *sources)
    else:
        reduced = _core.wait(requests.grouped_allreduce(sources, name, how, will_wait=True))
    contexts = [context for _, context in pairs]
    return [compression.decompress(*pair) for pair in zip(reduced, contexts)]


def sparse_allreduce_async(
    tensor: Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], Tensor]:
    """Start adding up sparse tensors; the function that is returned waits for the result."""
    if op not in (Average, Sum):
        raise ValueError("sparse tensors can be reduced by hvd.Average and hvd.Sum only")
    set_id = process_set.process_set_id
    rows = tensor._indices().transpose(0, 1).contiguous()
    handles = [
        requests.allgather(rows, f"{name}.indices", set_id),
        requests.allgather(tensor._values(), f"{name}.values", set_id),
    ]

    def result() -> Tensor:
        indices, values = (_core.wait(handle) for handle in handles)
        if op == Average:
            values = values / process_set.size()
        where = indices.transpose(0, 1)
        return torch.sparse_coo_tensor(where, values, tensor.size(), check_invariants=False)

    return result


# Allgather --------------------------------------------------------------------------------------


def allgather_async(
    tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start gathering everybody's rows."""
    return requests.allgather(tensor, name, process_set.process_set_id)


def allgather(
    tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor:
    """Everybody's tensors one after the other, by rank; only their first dimension may differ."""
    set_id = process_set.process_set_id
    if compiled.is_compiling():
        return compiled.allgather(tensor, name, set_id)
    if autograd.needs_grad(tensor):
        return autograd.Allgather.apply(tensor, name, set_id)
    return _core.wait(requests.allgather(tensor, name, set_id, will_wait=True))


def grouped_allgather_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start gathering several tensors, as one operation."""
    return requests.grouped_allgather(tensors, name, process_set.process_set_id)


def grouped_allgather(
    tensors: Sequence[Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Gather several tensors, as one operation."""
    set_id = process_set.process_set_id
    if compiled.is_compiling():
        names = _member_names(name, len(tensors))
        return [compiled.allgather(*pair, set_id) for pair in zip(tensors, names)]
    if autograd.needs_grad(*tensors):
        return list(autograd.GroupedAllgather.apply(name, set_id, *tensors))
    return _core.wait(requests.grouped_allgather(tensors, name, set_id, will_wait=True))


# Broadcast --------------------------------------------------------------------------------------


def broadcast_async_(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start overwriting `tensor` with that of the root."""
    return requests.broadcast_(tensor, root_rank, name, process_set.process_set_id)


def broadcast_async(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start copying the root's tensor into a new one."""
    return requests.broadcast(tensor, root_rank, name, process_set.process_set_id)


def broadcast_(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Overwrite `tensor` with that of the root, a rank of the job whatever the set."""
    handle = requests.broadcast_(
        tensor, root_rank, name, process_set.process_set_id, will_wait=True
    )
    return _core.wait(handle)


def broadcast(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """The root's tensor; it is a rank of the job whatever the set."""
    how = (root_rank, name, process_set.process_set_id)
    if compiled.is_compiling():
        return compiled.broadcast(tensor, *how)
    if autograd.needs_grad(tensor):
        return autograd.Broadcast.apply(tensor, *how)
    return _core.wait(requests.broadcast(tensor, *how, will_wait=True))


# Alltoall ---------------------------------------------------------------------------------------


def alltoall_async(
    tensor: Tensor,
    splits: requests.Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start exchanging rows; `synchronize` returns what came and how many rows from each rank."""
    return requests.alltoall(tensor, splits, name, process_set.process_set_id)


def alltoall(
    tensor: Tensor,
    splits: requests.Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send `splits[i]` rows to rank i, without `splits` equal parts.

    Returns the rows that came, by rank; and if `splits` were given, how many from each rank.
    """
    set_id = process_set.process_set_id
    if compiled.is_compiling():
        is_ready = splits is None or isinstance(splits, Tensor)
        given = splits if is_ready else torch.tensor(splits, dtype=torch.int32)
        output, received = compiled.alltoall(tensor, given, name, set_id)
    elif autograd.needs_grad(tensor):
        output, received = autograd.Alltoall.apply(tensor, splits, name, set_id)
    else:
        output, received = _core.wait(
            requests.alltoall(tensor, splits, name, set_id, will_wait=True)
        )
    return output if splits is None else (output, received)


# Reducescatter ----------------------------------------------------------------------------------


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start a reduction of which each rank gets its share of the rows."""
    how = (op, prescale_factor, postscale_factor, process_set.process_set_id)
    return requests.reducescatter(tensor, name, how)


def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """This rank's share of the rows of the average, or of the sum."""
    how = (op, prescale_factor, postscale_factor, process_set.process_set_id)
    compressed, context = compression.compress(tensor)
    if compiled.is_compiling():
        reduced = compiled.reducescatter(compressed, name, *how)
    elif autograd.needs_grad(compressed):
        reduced = autograd.Reducescatter.apply(compressed, name, how)
    else:
        reduced = _core.wait(requests.reducescatter(compressed, name, how, will_wait=True))
    return compression.decompress(reduced, context)


def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start the same for several tensors, as one operation."""
    how = (op, prescale_factor, postscale_factor, process_set.process_set_id)
    return requests.grouped_reducescatter(tensors, name, how)


def grouped_reducescatter(
    tensors: Sequence[Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    """This rank's shares of several reductions, as one operation."""
    how = (op, prescale_factor, postscale_factor, process_set.process_set_id)
    pairs = [compression.compress(tensor) for tensor in tensors]
    sources = [compressed for compressed, _ in pairs]
    if compiled.is_compiling():
        names = _member_names(name, len(tensors))
        reduced = [compiled.reducescatter(*pair, *how) for pair in zip(sources, names)]
    elif autograd.needs_grad(*sources):
        reduced = autograd.GroupedReducescatter.apply(name, how, *sources)
    else:
        reduced = _core.wait(requests.grouped_reducescatter(sources, name, how, will_wait=True))
    contexts = [context for _, context in pairs]
    return [compression.decompress(*pair) for pair in zip(reduced, contexts)]


# Without tensors --------------------------------------------------------------------------------


def join(device: int = -1) -> int:
    """This rank has no more data: wait until all ranks have said so, and return the last of them.

    Until then it takes part in the others' reductions with values that change nothing.
    """
    return _core.wait(_core.join())


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return once every rank of the set has called it."""
    requests.barrier(process_set.process_set_id)
