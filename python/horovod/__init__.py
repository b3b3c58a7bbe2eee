# SPDX-License-Identifier: Apache-2.0
"""Distributed training for deep-learning frameworks, for example `import horovod.torch as hvd`."""

from horovod import _leftovers

_leftovers.check(__path__[0])

from horovod._core import version as _version  # noqa: E402
from horovod.runner import run  # noqa: E402

__version__ = _version()
__all__ = ["__version__", "run"]
