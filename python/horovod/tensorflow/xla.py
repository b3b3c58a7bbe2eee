# SPDX-License-Identifier: Apache-2.0
"""Collectives in functions that XLA compiles: tf.function(jit_compile=True), fit(jit_compile=True).

XLA does not run kernels of TensorFlow, but it calls functions that are registered by name; the
adapter registers one. Such a call waits for the other ranks, and its shapes are fixed when the
function is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod import _core
from horovod.tensorflow.library import xla_problem

try:
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops as _xla_ops
    from tensorflow.python.ops import control_flow_util as _control_flow
except ImportError:  # they are not part of TensorFlow's public API
    _xla_ops = _control_flow = None

_TARGET = "horovod_collective"
_COLLECTIVES = {
    "HorovodAllreduce": _core.ALLREDUCE,
    "HorovodGroupedAllreduce": _core.ALLREDUCE,
    "HorovodBroadcast": _core.BROADCAST,
    "HorovodGroupedBroadcast": _core.BROADCAST,
}


def is_compiling() -> bool:
    """Whether XLA will compile the code that is being traced."""
    if _control_flow is None or tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    return _control_flow.GraphOrParentsInXlaContext(graph)


def _check(op: str, tensors: Sequence[tf.Tensor]) -> None:
    remedy = "keep it out of the compiled function, or set jit_compile=False"
    if xla_problem or _xla_ops is None:
        reason = xla_problem or "this TensorFlow has no XlaCustomCallV2 where it used to be"
        raise NotImplementedError(f"{op} cannot be compiled by XLA: {reason}; {remedy}")
    if op not in _COLLECTIVES:
        raise NotImplementedError(
            f"{op} cannot be compiled by XLA, which has to know the shape of the result; {remedy}"
        )
    for tensor in tensors:
        if not tensor.shape.is_fully_defined():
            raise NotImplementedError(
                f"{op} of {tensor.name} of shape {tensor.shape} cannot be compiled by XLA, which "
                f"has to know the shape; {remedy}"
            )


def run(
    op: str, tensors: Sequence[tf.Tensor], name: str, set_id: int, attributes: dict[str, Any]
) -> list[tf.Tensor]:
    """A collective on several tensors, as one call of the compiled program."""
    _check(op, tensors)
    name = tf.compat.v1.get_default_graph().unique_name(name)
    grouped = op.startswith("HorovodGrouped")

    def describe(label: str) -> str:
        """The text that adapter/xla.cc parses."""
        head = (
            _COLLECTIVES[op],
            attributes.get("reduce_op", _core.SUM),
            repr(float(attributes.get("prescale_factor", 1.0))),
            repr(float(attributes.get("postscale_factor", 1.0))),
            attributes.get("root_rank", 0),
            set_id,
            len(tensors),
        )
        lines = [" ".join(map(str, head))]
        for i, tensor in enumerate(tensors):
            member = f"{label}_{i + 1}of{len(tensors)}" if grouped else label
            shape = [len(tensor.shape), *tensor.shape]
            lines.append(" ".join(map(str, [tensor.dtype.as_datatype_enum, *shape, member])))
        return "\n".join(lines) + "\n"

    def call(values: Sequence[tf.Tensor], label: str) -> list[tf.Tensor]:
        return _xla_ops.xla_custom_call_v2(
            operands=values,
            call_target_name=_TARGET,
            backend_config=describe(label),
            has_side_effect=True,
            result_dtypes=[value.dtype for value in values],
            result_shapes=[value.shape for value in values],
        )

    @tf.custom_gradient
    def differentiable(*values: tf.Tensor) -> Any:
        def backward(*grads: tf.Tensor) -> list[tf.Tensor]:
            if op.endswith("Broadcast"):
                raise NotImplementedError(f"{op} has no gradient in functions that XLA compiles")
            return call(list(grads), f"{name}.grad")

        return call(list(values), name), backward

    return list(differentiable(*tensors))
