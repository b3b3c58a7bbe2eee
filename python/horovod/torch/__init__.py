# SPDX-License-Identifier: Apache-2.0
"""Horovod for PyTorch: `import horovod.torch as hvd`."""

try:
    import torch  # an attribute of this module too: programs use hvd.torch
except ImportError as error:
    raise ImportError(
        f"horovod.torch needs PyTorch 2.1 or later, which cannot be imported ({error}); "
        "pip install torch"
    ) from error

if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
    raise ImportError(
        f"horovod.torch needs PyTorch 2.1 or later, not {torch.__version__}; "
        "pip install --upgrade torch"
    )

from horovod import __version__
from horovod.common.basics import *  # noqa: F403
from horovod.common.basics import __all__ as _basics_names
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.util import check_extension
from horovod.torch import (  # noqa: F401 (`hvd.mpi_ops.Sum`)
    compression,
    elastic,
    functions,
    mpi_ops,
    optimizer,
    sync_batch_norm,
)
from horovod.torch.compression import Compression
from horovod.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.torch.ops import *  # noqa: F403
from horovod.torch.ops import __all__ as _ops_names
from horovod.torch.optimizer import DistributedOptimizer, _DistributedOptimizer  # noqa: F401
from horovod.torch.sync_batch_norm import SyncBatchNorm

__all__ = [  # noqa: PLE0604
    *_basics_names,
    *_ops_names,
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "ProcessSet",
    "SyncBatchNorm",
    "__version__",
    "add_process_set",
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "check_extension",
    "elastic",
    "global_process_set",
    "remove_process_set",
]
