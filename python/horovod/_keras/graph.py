# SPDX-License-Identifier: Apache-2.0
"""Variables in graphs of TensorFlow 1, whose values only the session of Keras has."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np


def is_current() -> bool:
    """Whether new operations are added to a graph that a session runs."""
    tf = sys.modules.get("tensorflow")
    if tf is None or tf.executing_eagerly():
        return False
    return not tf.inside_function()


def keras_backend() -> Any:
    """The backend of tf.keras, which has the session.

    Raises RuntimeError for Keras 3, which has no sessions.
    """
    import tensorflow as tf

    backend = tf.compat.v1.keras.backend
    if not hasattr(backend, "get_session"):
        raise RuntimeError(
            "Keras 3 has no sessions and cannot run a graph of TensorFlow 1; "
            "pip install tf-keras, and set TF_USE_LEGACY_KERAS=1"
        )
    return backend


def read(variables: Sequence[Any]) -> list[np.ndarray]:
    return [np.array(value) for value in keras_backend().batch_get_value(list(variables))]


def write(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    keras_backend().batch_set_value(list(zip(variables, values)))
