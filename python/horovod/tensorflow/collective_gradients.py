# SPDX-License-Identifier: Apache-2.0
"""The gradients of the collectives, which are collectives themselves.

Two rules hold for every function here. First, its result depends on each collective that it runs,
on every rank: a session of TensorFlow 1 runs only the operations that its result depends on, and
the other ranks would wait without end. Second, its tensors have the same names on every rank,
because the names of later collectives are derived from them.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod.common.basics import Average, Sum, rank
from horovod.common.process_sets import place_in
from horovod.tensorflow.collectives import Tensor, _reduction, _run


def _how(op: Any) -> dict[str, Any]:
    return _reduction(*map(op.get_attr, ("reduce_op", "prescale_factor", "postscale_factor")))


class _Backward:
    """Runs the collectives of a gradient with the process set and the name of its operation."""

    def __init__(self, op: Any) -> None:
        self.set_id = op.get_attr("process_set_id")
        self.ignore_name_scope = op.get_attr("ignore_name_scope")
        name = tf.compat.as_str(op.get_attr("tensor_name"))
        self.name = f"{name}.grad" if name else None

    def run(self, op: str, inputs: Any, *more: Any, part: str = "", **attributes: Any) -> Any:
        tensors = inputs if isinstance(inputs, list) else [inputs]
        name = None if self.name is None else self.name + part
        return _run(
            op, tensors, name, self.ignore_name_scope, self.set_id, inputs, *more, **attributes
        )

    def average(self, grads: list[Any]) -> list[Any]:
        return list(self.run("HorovodGroupedAllreduce", grads, **_reduction(Average, 1.0, 1.0)))


@tf.RegisterGradient("HorovodAllreduce")
def _allreduce_grad(op: Any, grad: Any) -> Tensor:
    return _Backward(op).run("HorovodAllreduce", grad, **_how(op))


@tf.RegisterGradient("HorovodGroupedAllreduce")
def _grouped_allreduce_grad(op: Any, *grads: Any) -> list[Tensor]:
    return list(_Backward(op).run("HorovodGroupedAllreduce", list(grads), **_how(op)))


def _own_rows(op: Any, grads: Any) -> list[Tensor]:
    """The parts of the average gradients that belong to this rank's rows."""
    backward = _Backward(op)
    place, _ = place_in(backward.set_id)
    averages = backward.average(list(grads))
    rows = [tf.shape(tensor, out_type=tf.int64)[:1] for tensor in op.inputs]
    rows_of_all = backward.run("HorovodGroupedAllgather", rows, part=".rows")
    own = []
    # The first rank does not need the row counts of the other ranks, so it has to depend on them
    # explicitly.
    with tf.control_dependencies(rows_of_all):
        for average, mine, all_rows in zip(averages, rows, rows_of_all):
            start = tf.reduce_sum(all_rows[:place])
            own.append(average[start : start + mine[0]])
    return own


@tf.RegisterGradient("HorovodAllgather")
def _allgather_grad(op: Any, grad: Any) -> Tensor:
    return _own_rows(op, [grad])[0]


@tf.RegisterGradient("HorovodGroupedAllgather")
def _grouped_allgather_grad(op: Any, *grads: Any) -> list[Tensor]:
    return _own_rows(op, grads)


def _of_root(op: Any, grads: Any) -> list[Tensor]:
    """The average gradients on the root, and zeros on other ranks."""
    averages = _Backward(op).average(list(grads))
    is_root = rank() == op.get_attr("root_rank")
    if tf.executing_eagerly():
        return averages if is_root else [tf.zeros_like(average) for average in averages]
    # The same operations on every rank. Zeros of a known shape are a constant, so the dependency
    # on the average has to be explicit.
    zeros = [tf.zeros_like(average) for average in averages]
    with tf.control_dependencies(averages):
        return [tf.identity(tensor) for tensor in (averages if is_root else zeros)]


@tf.RegisterGradient("HorovodBroadcast")
def _broadcast_grad(op: Any, grad: Any) -> Tensor:
    return _of_root(op, [grad])[0]


@tf.RegisterGradient("HorovodGroupedBroadcast")
def _grouped_broadcast_grad(op: Any, *grads: Any) -> list[Tensor]:
    return _of_root(op, grads)


@tf.RegisterGradient("HorovodAlltoall")
def _alltoall_grad(op: Any, grad: Any, _: Any) -> list[Any]:
    tensor = op.inputs[0]
    back, _ = _Backward(op).run("HorovodAlltoall", grad, op.outputs[1])
    # Rows that were sent to no rank have gradient zero; they are the last rows.
    rows = tf.shape(tensor)[0] - tf.shape(back)[0]
    padded = tf.pad(back, tf.scatter_nd([[0, 1]], [rows], [tf.rank(tensor), 2]))
    padded.set_shape(tensor.shape)
    return [padded, None]


def _scattered(op: Any, grads: Any) -> list[Tensor]:
    backward = _Backward(op)
    _, ranks = place_in(backward.set_id)
    factor = op.get_attr("prescale_factor") * op.get_attr("postscale_factor")
    if op.get_attr("reduce_op") == Sum:
        factor *= ranks
    scaled = list(grads)
    if factor != 1:
        scaled = [grad * tf.cast(factor, grad.dtype) for grad in scaled]
    return list(backward.run("HorovodGroupedAllgather", scaled))


@tf.RegisterGradient("HorovodReducescatter")
def _reducescatter_grad(op: Any, grad: Any) -> Tensor:
    return _scattered(op, [grad])[0]


@tf.RegisterGradient("HorovodGroupedReducescatter")
def _grouped_reducescatter_grad(op: Any, *grads: Any) -> list[Tensor]:
    return _scattered(op, grads)
