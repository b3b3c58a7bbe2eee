# SPDX-License-Identifier: Apache-2.0
"""Collectives on dense tensors; each is one native operation.

The operations do not block a thread: in a graph, TensorFlow runs other operations meanwhile, and
ranks may reach their collectives in different orders.

Arguments that many collectives have:

name: the name of the operation, the same on all ranks. Without it, graphs use the name of the
    tensor, and eager operations are numbered, so ranks have to call these in the same order.
ignore_name_scope: leave out the name scope of the graph from the name.
process_set: the ranks that take part.

Errors that one rank detects by itself are tf.errors.InvalidArgumentError. If ranks disagree, the
operation fails with tf.errors.FailedPreconditionError; if the job fails, with UnknownError.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.basics import Adasum, Sum
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import check_adasum
from horovod.tensorflow import xla
from horovod.tensorflow.library import ops

Tensor = tf.Tensor


# Names of operations ----------------------------------------------------------------------------


def _label(tensor: Any) -> str:
    """The name of a tensor of a graph, in a form that can be part of another name."""
    return re.sub("[^a-zA-Z0-9_]", "_", tensor.name)


def _identity(
    op: str, tensors: Sequence[Tensor], name: str | None, ignore_name_scope: bool
) -> dict[str, Any]:
    """The attributes that identify an operation across ranks; see adapter/ops.h."""
    if tf.executing_eagerly():
        return {"tensor_name": name or "", "numbered": not name}
    return {
        "name": name or f"{op}_{_label(tensors[0])}",
        "ignore_name_scope": ignore_name_scope,
    }


def _release(op: Any) -> None:
    """Let an operation of a tf.function run as soon as its inputs are ready.

    By default stateful operations run one after the other in program order. Then nothing would
    overlap, and ranks with different orders would wait for each other without end. One iteration
    of a loop still ends before the next one begins, so a name is never in use twice.
    """
    manager = getattr(tf.compat.v1.get_default_graph(), "experimental_acd_manager", None)
    if manager is not None:
        manager.run_independently(op)


def _run(
    op: str,
    tensors: Sequence[Tensor],
    name: str | None,
    ignore_name_scope: bool,
    process_set_id: int | None,
    *inputs: Any,
    **attributes: Any,
) -> Any:
    if process_set_id is None:
        raise ValueError(
            "the process set is not registered; pass it to hvd.init() or hvd.add_process_set(), "
            "and do not use it after hvd.remove_process_set()"
        )
    if xla.is_compiling():
        known = name or f"{op}_{_label(tensors[0])}"
        results = xla.run(op, tensors, known, process_set_id, attributes)
        return results if isinstance(inputs[0], list) else results[0]
    function = getattr(ops, _snake_case(op))
    identity = _identity(op, tensors, name, ignore_name_scope)
    result = function(*inputs, process_set_id=process_set_id, **identity, **attributes)
    if not tf.executing_eagerly():
        _release(_first(result).op)
    return result


def _first(result: Any) -> Tensor:
    return result if isinstance(result, Tensor) else result[0]


def _snake_case(op: str) -> str:
    return re.sub("(?<!^)([A-Z])", r"_\1", op).lower()


def _rows_unknown(output: Tensor, tensor: Tensor) -> Tensor:
    """Set the static shape: the number of rows is unknown, the other dimensions are kept."""
    if not tf.executing_eagerly() and tensor.shape.rank:
        output.set_shape([None, *tensor.shape[1:]])
    return output


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    return [tf.convert_to_tensor(value) for value in values]


def _check(op: int, process_set: ProcessSet) -> None:
    if op == Adasum:
        check_adasum(process_set.process_set_id)


def _reduction(op: int, prescale: float, postscale: float) -> dict[str, Any]:
    """The attributes of an operation that reduces."""
    return {"reduce_op": op, "prescale_factor": prescale, "postscale_factor": postscale}


# Collectives ------------------------------------------------------------------------------------


def _allreduce(
    tensor: Any,
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Reduce the tensors of all ranks; the factors multiply before and after the reduction."""
    _check(op, process_set)
    tensor = tf.convert_to_tensor(tensor)
    how = _reduction(op, prescale_factor, postscale_factor)
    set_id = process_set.process_set_id
    return _run("HorovodAllreduce", [tensor], name, ignore_name_scope, set_id, tensor, **how)


def _grouped_allreduce(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """`_allreduce` for several tensors as one operation; returns a list."""
    _check(op, process_set)
    tensors = _tensors(tensors)
    if not tensors:
        return tensors
    how = _reduction(op, prescale_factor, postscale_factor)
    set_id = process_set.process_set_id
    return list(
        _run("HorovodGroupedAllreduce", tensors, name, ignore_name_scope, set_id, tensors, **how)
    )


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Concatenate the tensors of all ranks along the first dimension, in rank order."""
    tensor = tf.convert_to_tensor(tensor)
    set_id = process_set.process_set_id
    output = _run("HorovodAllgather", [tensor], name, ignore_name_scope, set_id, tensor)
    return _rows_unknown(output, tensor)


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """`allgather` for several tensors as one operation; returns a list."""
    tensors = _tensors(tensors)
    if not tensors:
        return tensors
    set_id = process_set.process_set_id
    outputs = _run("HorovodGroupedAllgather", tensors, name, ignore_name_scope, set_id, tensors)
    return [_rows_unknown(output, tensor) for output, tensor in zip(outputs, tensors)]


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """The tensor of the root.

    root_rank: a rank of the whole job, even for other process sets.
    """
    tensor = tf.convert_to_tensor(tensor)
    set_id = process_set.process_set_id
    return _run(
        "HorovodBroadcast",
        [tensor],
        name,
        ignore_name_scope,
        set_id,
        tensor,
        root_rank=root_rank,
    )


def grouped_broadcast(
    tensors: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """`broadcast` for several tensors as one operation; returns a list."""
    tensors = _tensors(tensors)
    if not tensors:
        return tensors
    set_id = process_set.process_set_id
    return list(
        _run(
            "HorovodGroupedBroadcast",
            tensors,
            name,
            ignore_name_scope,
            set_id,
            tensors,
            root_rank=root_rank,
        )
    )


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send rows of `tensor` to all ranks and receive rows from all of them.

    splits: the number of rows for each rank. Without it, every rank gets the same number of rows.
    Returns the received rows in rank order. With `splits`, returns a pair: these rows, and an int32
    tensor with the number of rows from each rank.
    """
    tensor = tf.convert_to_tensor(tensor)
    counts = [] if splits is None else splits
    counts = tf.convert_to_tensor(counts, dtype=tf.int32)
    set_id = process_set.process_set_id
    output, received = _run(
        "HorovodAlltoall", [tensor], name, ignore_name_scope, set_id, tensor, counts
    )
    output = _rows_unknown(output, tensor)
    return output if splits is None else (output, received)


def _reducescatter(
    tensor: Any,
    name: str | None = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Reduce the tensors of all ranks and return this rank's share of the rows."""
    tensor = tf.convert_to_tensor(tensor)
    how = _reduction(op, prescale_factor, postscale_factor)
    set_id = process_set.process_set_id
    output = _run("HorovodReducescatter", [tensor], name, ignore_name_scope, set_id, tensor, **how)
    return _rows_unknown(output, tensor)


def _grouped_reducescatter(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    """`_reducescatter` for several tensors as one operation; returns a list."""
    tensors = _tensors(tensors)
    if not tensors:
        return tensors
    how = _reduction(op, prescale_factor, postscale_factor)
    set_id = process_set.process_set_id
    outputs = _run(
        "HorovodGroupedReducescatter", tensors, name, ignore_name_scope, set_id, tensors, **how
    )
    return [_rows_unknown(output, tensor) for output, tensor in zip(outputs, tensors)]


def join() -> Tensor:
    """Report that this rank has no more data, and wait until all ranks have reported that.

    Until then this rank takes part in the reductions of the other ranks with neutral values.
    Returns the rank that joined last.
    """
    return ops.horovod_join()


# Place of this process --------------------------------------------------------------------------


def size_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """The number of ranks at the time the graph runs, not at the time it is built."""
    return ops.horovod_size(process_set_id=process_set_id, name=name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """1 if this process is in the process set at the time the graph runs, else 0."""
    return ops.horovod_process_set_included(process_set_id=process_set_id, name=name)


def rank_op(name: str | None = None) -> Tensor:
    """The rank at the time the graph runs."""
    return ops.horovod_rank(name=name)


def local_rank_op(name: str | None = None) -> Tensor:
    """The rank on this host at the time the graph runs."""
    return ops.horovod_local_rank(name=name)


def local_size_op(name: str | None = None) -> Tensor:
    """The number of ranks on this host at the time the graph runs."""
    return ops.horovod_local_size(name=name)
