# SPDX-License-Identifier: Apache-2.0
"""Gradients of Keras with TensorFlow; implements horovod._keras.backends.Backend."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from horovod._keras import graph
from horovod._keras.settings import Settings
from horovod.common.basics import Min
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.compression import Compression  # noqa: F401 (part of Backend)
from horovod.tensorflow.gradients import check_reduction, reduce_gradients

tensor = tf.convert_to_tensor


def array(value: Any) -> np.ndarray:
    """A value of any kind as an array of the dtype that TensorFlow gives it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if not tf.is_tensor(value):
        return tf.make_ndarray(tf.make_tensor_proto(value))
    if tf.executing_eagerly():
        return np.asarray(tf.convert_to_tensor(value))
    if tf.inside_function():
        raise TypeError(
            "in a tf.function tensors have no values yet; use the collectives of horovod.tensorflow"
        )
    session = tf.compat.v1.get_default_session() or graph.keras_backend().get_session()
    return np.asarray(session.run(value))


def result(value: np.ndarray) -> Any:
    """The result of a collective; an array in a graph, where tensors have no values."""
    return tf.convert_to_tensor(value) if tf.executing_eagerly() else value


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    """A context in which tensors have values at once; it adds nothing to the user's graph."""
    if tf.executing_eagerly():
        yield
        return
    without_gpus = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=without_gpus):
        yield


class _Eager:
    """Identifies eager execution, which has no graph."""


def current_graph() -> Any:
    """The outermost graph or function that is being built; branches belong to it."""
    if tf.executing_eagerly():
        return _Eager
    found = tf.compat.v1.get_default_graph()
    while isinstance(getattr(found, "outer_graph", None), tf.__internal__.FuncGraph):
        found = found.outer_graph
    return found


def check(settings: Settings) -> None:
    check_reduction(settings.op, settings.gradient_predivide_factor, settings.groups)


def reduce(
    gradients: list[Any],
    variables: list[Any],
    settings: Settings,
    name: str | None,
    local_variables: list[Any],
) -> list[Any]:
    return reduce_gradients(
        gradients,
        variables=variables,
        op=settings.op,
        compression=settings.compression,
        gradient_predivide_factor=settings.gradient_predivide_factor,
        sparse_as_dense=settings.sparse_as_dense,
        groups=settings.groups,
        process_set=settings.process_set,
        name=name,
        use_generic_names=name is None,
        local_variables=local_variables,
        scale_local_gradients=settings.scale_local_gradients,
        device_dense=settings.device_dense,
        device_sparse=settings.device_sparse,
    )


def all_true(flag: Any, settings: Settings, name: str) -> Any:
    """Whether a condition holds on every rank."""
    ones = mpi_ops._allreduce(
        tf.cast(flag, tf.int32),
        name,
        Min,
        ignore_name_scope=True,
        process_set=settings.process_set,
    )
    return tf.cast(ones, tf.bool)


class Accumulator:
    """Adds up gradients of several passes: in graphs of TensorFlow 1, in functions and eagerly."""

    def __init__(self, passes: int, average: bool, sparse_as_dense: bool) -> None:
        self.passes, self.average, self.sparse_as_dense = passes, average, sparse_as_dense
        self.sums: list[tf.Variable | None] = []
        self.done: tf.Variable | None = None

    def add(
        self,
        gradients: list[Any],
        variables: list[Any],
        reduce: Callable[[list[Any], list[Any]], list[Any]],
    ) -> list[Any]:
        """Add the gradients of one pass; returns the sums, after the last pass the reduced ones."""
        gradients = [self._checked(gradient) for gradient in gradients]
        if self.done is None:
            self._make_variables(gradients, variables)
        present = [i for i, total in enumerate(self.sums) if total is not None]
        added = [self.done.assign_add(1)]  # type: ignore[union-attr]
        added += [
            self.sums[i].assign_add(gradients[i]) for i in present if gradients[i] is not None
        ]
        with tf.control_dependencies(added):
            is_last = self.done.read_value() >= self.passes  # type: ignore[union-attr]
            sums = [self.sums[i].read_value() for i in present]

        def finish() -> list[Any]:
            complete: list[Any] = [None] * len(gradients)
            for i, total in zip(present, sums):
                complete[i] = total / self.passes if self.average else total
            reduced = reduce(complete, variables)
            with tf.control_dependencies([reduced[i] for i in present]):
                cleared = self._clear()
            with tf.control_dependencies(cleared):
                return [tf.identity(reduced[i]) for i in present]

        results: list[Any] = [None] * len(gradients)
        for i, result in zip(present, tf.cond(is_last, finish, lambda: sums)):
            results[i] = result
        return results

    def step(self, ready: list[Any], apply: Callable[[], Any], skip: Callable[[], Any]) -> Any:
        """Call `apply` if the last pass has been added, otherwise `skip`.

        Returns an operation in a graph of TensorFlow 1, otherwise None.
        """
        is_graph = graph.is_current()

        def branch(function: Callable[[], Any]) -> Callable[[], Any]:
            def run() -> tf.Tensor:
                done = function()
                # A tf.function orders stateful operations by itself.
                with tf.control_dependencies([done] if is_graph else []):
                    return tf.constant(0)

            return run

        with tf.control_dependencies([gradient for gradient in ready if gradient is not None]):
            is_first = tf.equal(self.done.read_value(), 0)  # type: ignore[union-attr]
        done = tf.cond(is_first, branch(apply), branch(skip))
        return done.op if is_graph else None

    def forget(self) -> None:
        """Drop the passes of a step that has begun."""
        if self.done is None:
            return
        if graph.is_current():
            variables = [self.done, *(total for total in self.sums if total is not None)]
            graph.write(
                variables, [np.zeros(tuple(v.shape), v.dtype.as_numpy_dtype) for v in variables]
            )
        else:
            self._clear()

    def _clear(self) -> list[Any]:
        totals = [total for total in self.sums if total is not None]
        cleared = [total.assign(tf.zeros_like(total)) for total in totals]
        return [*cleared, self.done.assign(0)]  # type: ignore[union-attr]

    def _make_variables(self, gradients: list[Any], variables: list[Any]) -> None:
        with tf.init_scope():
            self.done = _zeros((), tf.int32)
            self.sums = [
                None if gradient is None else _zeros(variable.shape, gradient.dtype)
                for gradient, variable in zip(gradients, variables)
            ]
            if graph.is_current():
                made = [self.done, *(total for total in self.sums if total is not None)]
                graph.keras_backend().get_session().run([v.initializer for v in made])

    def _checked(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self.sparse_as_dense:
            raise ValueError(
                "sparse gradients cannot be added up with backward_passes_per_step; "
                "pass sparse_as_dense=True"
            )
        return tf.convert_to_tensor(gradient)


def _zeros(shape: Any, dtype: Any) -> tf.Variable:
    return tf.Variable(tf.zeros(shape, dtype), trainable=False)
