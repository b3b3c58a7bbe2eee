# SPDX-License-Identifier: Apache-2.0
"""Collectives on dense tensors, one native operation each.

They do not wait: in a graph, TensorFlow runs on while ranks meet, in whatever order each of them
comes to its tensors.
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


# How an operation is known ----------------------------------------------------------------------


def _label(tensor: Any) -> str:
    """What a tensor of a graph is called, as part of another name."""
    return re.sub("[^a-zA-Z0-9_]", "_", tensor.name)


def _identity(
    op: str, tensors: Sequence[Tensor], name: str | None, ignore_name_scope: bool
) -> dict[str, Any]:
    """The attributes by which ranks find the same operation again; see adapter/ops.h."""
    if tf.executing_eagerly():
        return {"tensor_name": name or "", "numbered": not name}
    return {
        "name": name or f"{op}_{_label(tensors[0])}",
        "ignore_name_scope": ignore_name_scope,
    }


def _release(op: Any) -> None:
    """Let an operation of a tf.function run when its inputs are there.

    Stateful operations are otherwise run one after the other in the order of the program: nothing
    would overlap, and ranks whose programs differ in that order would wait for each other for
    ever. A round of a loop still ends before the next begins, so that names are not in use twice.
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
    """The other dimensions are as they were."""
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
    """The reduction of all ranks' tensors, scaled before and after."""
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
    """The same for tensors that complete as one."""
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
    """All ranks' tensors, one after the other along the first dimension."""
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
    """The same for tensors that complete as one."""
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
    """The tensor of the root, which is a rank of the whole job."""
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
    """The same for tensors that complete as one."""
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
    """Rows for every rank, of which `splits` says how many go to which; by default as many to each.

    The rows from every rank; and with `splits` also how many came from which.
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
    """This rank's rows of the reduction."""
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
    """The same for tensors that complete as one."""
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
    """This rank has no more data; the rank that came to this last, once all have."""
    return ops.horovod_join()


# Where this process is --------------------------------------------------------------------------


def size_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """The number of ranks when the graph is run, not when it is made."""
    return ops.horovod_size(process_set_id=process_set_id, name=name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """1 if this process is in the set when the graph is run, else 0."""
    return ops.horovod_process_set_included(process_set_id=process_set_id, name=name)


def rank_op(name: str | None = None) -> Tensor:
    """The rank when the graph is run."""
    return ops.horovod_rank(name=name)


def local_rank_op(name: str | None = None) -> Tensor:
    """The rank on this host when the graph is run."""
    return ops.horovod_local_rank(name=name)


def local_size_op(name: str | None = None) -> Tensor:
    """The number of ranks of this host when the graph is run."""
    return ops.horovod_local_size(name=name)
