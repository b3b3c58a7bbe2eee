# SPDX-License-Identifier: Apache-2.0
"""Horovod for TensorFlow 2: `import horovod.tensorflow as hvd`."""

try:
    import tensorflow as tf  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"horovod.tensorflow needs TensorFlow 2.13 or later, which cannot be imported ({error}); "
        "pip install tensorflow"
    ) from error

from horovod import __version__
from horovod.common.basics import *  # noqa: F403
from horovod.common.basics import __all__ as _names_of_basics
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.util import check_extension
from horovod.tensorflow import elastic
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from horovod.tensorflow.mpi_ops import (
    allgather,
    alltoall,
    broadcast,
    grouped_allgather,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from horovod.tensorflow.optimizer import DistributedOptimizer
from horovod.tensorflow.reductions import (
    allreduce,
    check_num_rank_power_of_2,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization
from horovod.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape

# Names and modules that other libraries read as attributes of this module. `tf` is another.
# isort: split
from horovod.tensorflow import gradient_aggregation, gradient_aggregation_eager  # noqa: F401
from horovod.tensorflow.functions import _make_broadcast_group_fn  # noqa: F401
from horovod.tensorflow.gradients import (  # noqa: F401
    make_allreduce_grads_fn as _make_allreduce_grads_fn,
)
from horovod.tensorflow.mpi_ops import _allreduce  # noqa: F401
from horovod.tensorflow.optimizer import _DistributedOptimizer, _LegacyOptimizer  # noqa: F401
from horovod.tensorflow.util import _executing_eagerly  # noqa: F401

__all__ = [  # noqa: PLE0604
    *_names_of_basics,
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "SyncBatchNormalization",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "check_extension",
    "check_num_rank_power_of_2",
    "elastic",
    "global_process_set",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "size_op",
]
