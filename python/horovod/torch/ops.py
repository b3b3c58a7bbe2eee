# SPDX-License-Identifier: Apache-2.0
"""Collectives on tensors.

Each collective has up to four forms. `x` waits and returns a new tensor, through which gradients
flow. `x_` works in place. `x_async` and `x_async_` return a handle for `synchronize`. A program may
drop a tensor while its operation runs, but must not read or write its values before `synchronize`.

Arguments that many collectives have:

name: the name of the operation, the same on all ranks. Ranks may start operations with a name in
    any order. The engine numbers operations without a name, so all ranks of a process set have to
    start these in the same order.
op: the reduction op: hvd.Average (default), Sum, Adasum, Min, Max or Product.
average: deprecated; True is op=hvd.Average, False is op=hvd.Sum.
prescale_factor, postscale_factor: multiply the tensor before and after the reduction.
compression: hvd.Compression.fp16 or bf16 sends floats with 16 bits.
process_set: the ranks that take part.

All collectives raise ValueError at once for arguments that are wrong on this rank: the device, the
layout, the dtype, the process set, or a name that is in use. They, or `synchronize`, raise
HorovodInternalError if the ranks disagree or the job fails.
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
    """Whether an operation has ended, with or without an error."""
    return _core.poll(handle)


def synchronize(handle: int) -> Any:
    """Wait for an operation and return its result.

    Returns None if the handle was passed to `synchronize` before.
    Raises HorovodInternalError if the operation has failed.
    """
    return _core.wait(handle)


def _member_names(name: str | None, count: int) -> list[str | None]:
    """Names for the tensors of a group; compiled code runs each tensor as a separate operation."""
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
    """Start reducing `tensor` in place; returns a handle."""
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
    """Start reducing `tensor` into a new tensor; returns a handle."""
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
    """Reduce `tensor` in place and return it. The default op is hvd.Average."""
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
    """Reduce the tensors of all ranks into a new one. The default op is hvd.Average."""
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
    """Start reducing several tensors in place as one operation; returns one handle."""
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
    """Start reducing several tensors into new ones as one operation; returns one handle."""
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
    """Reduce several tensors in place as one operation, and return them."""
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
    """Reduce several tensors as one operation, and return new ones."""
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
    """Start adding up or averaging sparse tensors.

    op: hvd.Average or hvd.Sum; ValueError otherwise.
    Returns a function that waits for the operation and returns the sparse result.
    """
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
    """Start concatenating the tensors of all ranks; returns a handle."""
    return requests.allgather(tensor, name, process_set.process_set_id)


def allgather(
    tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor:
    """Concatenate the tensors of all ranks in rank order; only the first dimensions may differ."""
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
    """Start `allgather` for several tensors as one operation; returns one handle."""
    return requests.grouped_allgather(tensors, name, process_set.process_set_id)


def grouped_allgather(
    tensors: Sequence[Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """`allgather` for several tensors as one operation; returns a list."""
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
    """Start overwriting `tensor` with the tensor of the root; returns a handle."""
    return requests.broadcast_(tensor, root_rank, name, process_set.process_set_id)


def broadcast_async(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start copying the tensor of the root into a new tensor; returns a handle."""
    return requests.broadcast(tensor, root_rank, name, process_set.process_set_id)


def broadcast_(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Overwrite `tensor` with the tensor of the root and return it.

    root_rank: a rank of the job, not an index in the process set.
    """
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
    """Return a copy of the tensor of the root.

    root_rank: a rank of the whole job, even for other process sets.
    """
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
    """Start `alltoall`; `synchronize` returns the rows and how many came from each rank."""
    return requests.alltoall(tensor, splits, name, process_set.process_set_id)


def alltoall(
    tensor: Tensor,
    splits: requests.Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send rows of `tensor` to all ranks and receive rows from all of them.

    splits: the number of rows for each rank, as a list or an int32 tensor. Without it, every rank
        gets the same number of rows.
    Returns the received rows in rank order. With `splits`, returns a pair: these rows, and an int32
    tensor with the number of rows from each rank.
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
    """Start `reducescatter`; returns a handle."""
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
    """Reduce the tensors of all ranks and return this rank's share of the rows.

    The first ranks get one row more if the rows cannot be divided evenly.
    op: hvd.Average or hvd.Sum.
    """
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
    """Start `reducescatter` for several tensors as one operation; returns one handle."""
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
    """`reducescatter` for several tensors as one operation; returns a list."""
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
    """Report that this rank has no more data, and wait until all ranks have reported that.

    Until then this rank takes part in the reductions of the other ranks with values that do not
    change the result.
    device: ignored.
    Returns the rank that joined last.
    """
    return _core.wait(_core.join())


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until every rank of the process set has called this function."""
    requests.barrier(process_set.process_set_id)
