# SPDX-License-Identifier: Apache-2.0
"""Loads the native operations into the installed TensorFlow."""

from __future__ import annotations

import ctypes
import pathlib
from typing import Any

import tensorflow as tf

from horovod import _core

# The adapter links the core library by its name, so _core has to load it first.
assert _core.version()

_FILE = pathlib.Path(__file__).parent / "_adapter.so"


def _load() -> tuple[Any, str]:
    """The Python functions of the operations; and why XLA cannot use them, empty if it can."""
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if version < (2, 13):
        raise ImportError(
            f"horovod.tensorflow needs TensorFlow 2.13 or later, not {tf.__version__}; "
            "pip install --upgrade tensorflow"
        )
    if not _FILE.exists():
        raise ImportError(f"{_FILE} is missing; install the wheel of horovod again")
    ops = tf.load_op_library(str(_FILE))
    adapter = ctypes.CDLL(str(_FILE))
    adapter.hvd_tensorflow_problem.restype = ctypes.c_char_p
    problem = adapter.hvd_tensorflow_problem().decode()
    if problem:
        raise ImportError(
            f"horovod.tensorflow cannot work with TensorFlow {tf.__version__}: {problem}"
        )
    adapter.hvd_tensorflow_xla_problem.restype = ctypes.c_char_p
    return ops, adapter.hvd_tensorflow_xla_problem().decode()


ops, xla_problem = _load()
