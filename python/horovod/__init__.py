"""Distributed training for deep-learning frameworks; `import horovod.torch as hvd` and so on."""

from horovod._core import version as _version
from horovod.runner import run

__version__ = _version()
__all__ = ["__version__", "run"]
