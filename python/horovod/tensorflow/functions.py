# SPDX-License-Identifier: Apache-2.0
"""Copies variables and objects of one rank to all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from horovod.common import objects
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow import collectives

_v1 = tf.compat.v1


def _sent(variables: list[Any], root_rank: int, name: str | None, process_set: ProcessSet) -> Any:
    """Assign the values of the root to variables; returns the assignments."""
    values = collectives.grouped_broadcast(
        [tf.convert_to_tensor(variable) for variable in variables],
        root_rank,
        name,
        process_set=process_set,
    )
    return [variable.assign(value) for variable, value in zip(variables, values)]


def broadcast_(
    variables: Iterable[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Overwrite variables with those of the root, and return their new values in order.

    Raises ValueError for a mix of resource variables and reference variables.
    """
    variables = [_plain(variable) for variable in variables]
    if len({_is_resource(variable) for variable in variables}) > 1:
        raise ValueError("broadcast_ takes resource variables or reference variables, not both")
    if not variables:
        return []
    return _sent(variables, root_rank, name, process_set)


def _is_resource(variable: Any) -> bool:
    return hasattr(variable, "handle")


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Overwrite variables with those of the root.

    root_rank: a rank of the whole job, even for other process sets.
    inplace: ignored.
    Returns None eagerly, and in a graph an operation that overwrites the variables.
    """
    variables = [_plain(variable) for variable in variables]
    if not variables:
        return None if tf.executing_eagerly() else tf.no_op()
    assigned = _sent(variables, root_rank, None, process_set)
    if tf.executing_eagerly():
        return None
    return tf.group(*assigned)


def _make_broadcast_group_fn() -> Callable[..., Any]:
    """Return broadcast_variables; other libraries call this function to get it."""
    return broadcast_variables


def _plain(variable: Any) -> Any:
    """The variable of TensorFlow inside a variable of Keras 3; other variables as they are."""
    inner = getattr(variable, "value", None)
    return inner if isinstance(inner, tf.Variable) else variable


def broadcast_global_variables(root_rank: int) -> Any:
    """An operation that overwrites all variables of the graph with those of the root.

    Raises RuntimeError in eager execution, which has no list of all variables.
    """
    if tf.executing_eagerly():
        raise RuntimeError(
            "hvd.broadcast_global_variables() works on graphs only: there is no list of all "
            "variables otherwise; pass them to hvd.broadcast_variables()"
        )
    return broadcast_variables(_v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(_v1.train.SessionRunHook):
    """Copies the variables of the root to all ranks after the session is created.

    So all ranks begin with the same weights, even if the root has restored a checkpoint.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        # A program may use one hook for several graphs, one after the other.
        if self.bcast_op is None or self.bcast_op.graph != _v1.get_default_graph():
            with tf.device(self.device or None):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self.bcast_op)


# Objects ----------------------------------------------------------------------------------------


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the object of the root rank on every rank. cloudpickle serializes it.

    session: ignored; TensorFlow does not transport objects.
    """
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """Return a function that takes an object and calls broadcast_object with these arguments."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Return the objects of all ranks in rank order. cloudpickle serializes them.

    session: ignored.
    """
    return objects.allgather_object(obj, name, process_set)
