# SPDX-License-Identifier: Apache-2.0
"""Names that other libraries import from horovod.tensorflow.mpi_ops."""
# ruff: noqa: F401

from horovod.common.basics import *  # noqa: F403
from horovod.common.basics import HorovodBasics
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.util import get_average_backwards_compatibility_fun
from horovod.tensorflow.collective_gradients import (
    _allgather_grad,
    _allreduce_grad,
    _alltoall_grad,
    _broadcast_grad,
    _grouped_allgather_grad,
    _grouped_allreduce_grad,
    _grouped_reducescatter_grad,
    _reducescatter_grad,
)
from horovod.tensorflow.collectives import (
    _allreduce,
    _grouped_allreduce,
    _grouped_reducescatter,
    _reducescatter,
    allgather,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_broadcast,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from horovod.tensorflow.functions import broadcast_
from horovod.tensorflow.reductions import check_num_rank_power_of_2

_basics = HorovodBasics()
handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
