# SPDX-License-Identifier: Apache-2.0
"""What graphs and eager execution differ in, and names that other libraries import from here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_has_eager = True  # every TensorFlow that this package works with


def _executing_eagerly() -> bool:
    return tf.executing_eagerly()


def _make_subgraph(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a graph, in which its collectives overlap."""
    return tf.function(f)


# Keeps what a function has returned, by its arguments.
_cache = functools.lru_cache(maxsize=None)


def in_session_graph() -> bool:
    """Whether what is being built is run by a session of TensorFlow 1, also if it is a branch."""
    with tf.init_scope():
        return not tf.executing_eagerly()
