# SPDX-License-Identifier: Apache-2.0
"""Queries about graphs, and names that other libraries import from here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_has_eager = True  # every supported TensorFlow has eager execution


def _executing_eagerly() -> bool:
    return tf.executing_eagerly()


def _make_subgraph(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a graph, in which its collectives overlap."""
    return tf.function(f)


# Caches the result of a function for each combination of arguments.
_cache = functools.lru_cache(maxsize=None)


def in_session_graph() -> bool:
    """Whether a session of TensorFlow 1 will run the graph, or the branch, that is being built."""
    with tf.init_scope():
        return not tf.executing_eagerly()
