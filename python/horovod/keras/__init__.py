# SPDX-License-Identifier: Apache-2.0
"""Horovod for Keras: `import horovod.keras as hvd`."""

from __future__ import annotations

from typing import Any

try:
    import keras as _keras
except ImportError as error:
    raise ImportError(
        f"horovod.keras needs Keras, which cannot be imported ({error}); pip install keras"
    ) from error

from horovod._keras import functions as _functions
from horovod._keras.backends import backend_of
from horovod._keras.basics import *  # noqa: F403
from horovod._keras.basics import Average, Sum, global_process_set
from horovod._keras.basics import __all__ as _basics_names
from horovod._keras.settings import Settings
from horovod._keras.wrap import distribute
from horovod.common.basics import Adasum
from horovod.common.process_sets import ProcessSet
from horovod.common.util import groups_of

_backend = backend_of(_keras)
Compression = _backend.Compression
allgather, broadcast, reducescatter = _functions.collectives(_backend)
load_model = _functions.loader(_keras, _backend, __name__)

from horovod.keras import callbacks, elastic  # noqa: E402

__all__ = [  # noqa: PLE0604
    *_basics_names,
    "Adasum",
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "elastic",
    "load_model",
    "reducescatter",
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
    num_groups: int = 0,
    groups: Any = None,
) -> Any:
    """Make an optimizer that reduces gradients across ranks before it applies them.

    The new optimizer is made from the configuration of `optimizer`. Its class is a subclass of the
    class of `optimizer` with the same name.

    optimizer: an optimizer of Keras, or its name.
    name: the prefix of the names of gradients in timelines and messages.
    device_dense, device_sparse: the device for dense and for sparse gradients of TensorFlow.
    compression: hvd.Compression.fp16 or bf16 sends floats with 16 bits.
    sparse_as_dense: turn sparse gradients into dense ones.
    gradient_predivide_factor: f divides by f before the sum and by size / f after it.
        Needs op=hvd.Average.
    op: hvd.Average or hvd.Sum.
    num_groups: deprecated; use groups.
    groups: the number of groups to reduce gradients in, or lists of variables, one per group.

    Raises ValueError for arguments that do not fit together.
    """
    return PartialDistributedOptimizer(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        groups=groups_of(num_groups, groups),
    )


def PartialDistributedOptimizer(  # noqa: N802
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
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """DistributedOptimizer with local layers: their gradients stay on each rank.

    The other arguments are those of DistributedOptimizer.

    backward_passes_per_step: the number of batches whose gradients add up before they are reduced
        and applied.
    average_aggregated_gradients: divide these sums by their number.
    process_set: the ranks that train together.
    local_layers: a layer of Keras, or several, whose gradients are not reduced.
    scale_local_gradients: divide the gradients of local layers by the number of ranks.
    """
    if local_layers is not None and not isinstance(local_layers, (list, tuple, set)):
        local_layers = [local_layers]
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
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
        local_layers=tuple(local_layers or ()),
    )
    return distribute(_keras, optimizer, settings)


def broadcast_global_variables(root_rank: int) -> None:
    """Overwrite all variables of the graph of TensorFlow 1 with those of the root rank."""
    from horovod.tensorflow.keras import broadcast_global_variables as broadcast_all

    broadcast_all(root_rank)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = True,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """Reduce the values of all ranks. The default operation is the average.

    value: a tensor, an array or a number.
    average: True is op=hvd.Average, False is op=hvd.Sum; ignored if `op` is given.
    prescale_factor, postscale_factor: multiply the value before and after the reduction.
    compression: hvd.Compression.fp16 or bf16 sends floats with 16 bits.
    """
    if op is None:
        op = Average if average in (None, True) else Sum
    factors = prescale_factor, postscale_factor
    return _functions.allreduce(_backend, value, name, op, *factors, compression)
