# SPDX-License-Identifier: Apache-2.0
"""Older programs import the collectives and the functions of the job from this module."""

from horovod.common.basics import *  # noqa: F403
from horovod.common.basics import HorovodBasics
from horovod.common.exceptions import HorovodInternalError  # noqa: F401
from horovod.common.process_sets import (  # noqa: F401
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.util import reduce_op as handle_average_backwards_compatibility  # noqa: F401
from horovod.torch.compression import Compression  # noqa: F401
from horovod.torch.ops import *  # noqa: F403

_basics = HorovodBasics()
