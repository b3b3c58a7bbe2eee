"""The old home of the collectives and of what is known about the job."""

from horovod.common.basics import *  # noqa: F403
from horovod.common.process_sets import ProcessSet, global_process_set  # noqa: F401
from horovod.torch.compression import Compression  # noqa: F401
from horovod.torch.ops import *  # noqa: F403
