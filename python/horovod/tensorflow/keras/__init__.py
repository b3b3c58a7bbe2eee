# SPDX-License-Identifier: Apache-2.0
"""Horovod for the Keras of TensorFlow: `import horovod.tensorflow.keras as hvd`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod._keras import functions as _functions
from horovod._keras import graph as _graph
from horovod._keras.basics import *  # noqa: F403
from horovod._keras.basics import Average, global_process_set
from horovod._keras.basics import __all__ as _basics_names
from horovod._keras.settings import Settings
from horovod._keras.wrap import distribute
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    remove_process_set,
)
from horovod.common.util import groups_of, reduce_op
from horovod.tensorflow import functions as _tensorflow
from horovod.tensorflow import keras_backend as _backend
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.keras import callbacks, elastic

_keras = tf.keras
allgather, broadcast, reducescatter = _functions.collectives(_backend)
load_model = _functions.loader(_keras, _backend, __name__)

__all__ = [  # noqa: PLE0604
    *_basics_names,
    "Compression",
    "DistributedOptimizer",
    "ProcessSet",
    "add_process_set",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "elastic",
    "load_model",
    "reducescatter",
    "remove_process_set",
]


def DistributedOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Make an optimizer that reduces gradients across ranks before it applies them.

    The new optimizer is made from the configuration of `optimizer`. Its class is a subclass of the
    class of `optimizer` with the same name. Its method `register_local_var(variable)` excludes a
    variable from the reduction.

    optimizer: an optimizer of Keras, or its name.
    name: the prefix of the names of gradients in timelines and messages.
    device_dense, device_sparse: the device for dense and for sparse gradients.
    compression: hvd.Compression.fp16 or bf16 sends floats with 16 bits.
    sparse_as_dense: turn sparse gradients into dense ones.
    gradient_predivide_factor: f divides by f before the sum and by size / f after it.
        Needs op=hvd.Average.
    op: hvd.Average or hvd.Sum.
    backward_passes_per_step: the number of batches whose gradients add up before they are reduced
        and applied.
    average_aggregated_gradients: divide these sums by their number.
    num_groups: deprecated; use groups.
    groups: the number of groups to reduce gradients in, or lists of variables, one per group.
    process_set: the ranks that train together.
    scale_local_gradients: divide gradients of excluded variables by the number of ranks.

    Raises ValueError for arguments that do not fit together.
    """
    settings = Settings(
        compression=compression,
        name=name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        groups=groups_of(num_groups, groups),
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    return distribute(_keras, optimizer, settings)


def broadcast_global_variables(root_rank: int) -> None:
    """Overwrite all variables of the graph of TensorFlow 1 with those of the root rank."""
    operation = _tensorflow.broadcast_global_variables(root_rank)
    _graph.keras_backend().get_session().run(operation)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """Reduce the values of all ranks. The default operation is the average.

    value: a tensor, an array or a number.
    average: deprecated; True is op=hvd.Average, False is op=hvd.Sum.
    prescale_factor, postscale_factor: multiply the value before and after the reduction.
    compression: hvd.Compression.fp16 or bf16 sends floats with 16 bits.
    """
    factors = prescale_factor, postscale_factor
    op = reduce_op(op, average)
    return _functions.allreduce(_backend, value, name, op, *factors, compression)
