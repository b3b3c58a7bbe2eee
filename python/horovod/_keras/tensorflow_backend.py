"""Gradients of Keras with TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from horovod._keras.optimizer import Settings
from horovod.common.basics import Min
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.gradients import check_reduction, reduce_gradients

__all__ = ["Accumulator", "Compression", "all_true", "array", "check", "reduce", "tensor"]

tensor = tf.convert_to_tensor


def array(value: Any) -> Any:
    return value.numpy()


def check(settings: Settings) -> None:
    check_reduction(settings.op, settings.gradient_predivide_factor, settings.groups)


def reduce(
    gradients: list[Any],
    variables: list[Any],
    settings: Settings,
    name: str,
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
    """Adds up the gradients of some passes."""

    def __init__(self, passes: int, average: bool, sparse_as_dense: bool) -> None:
        self.passes, self.average, self.sparse_as_dense = passes, average, sparse_as_dense
        self.sums: list[tf.Variable | None] = []
        self.done: tf.Variable | None = None

    def add(
        self,
        gradients: list[Any],
        variables: list[Any],
        apply: Callable[[list[Any]], Any],
        skip: Callable[[], Any],
    ) -> None:
        """Add gradients; with those of the last pass, `apply` the sums, else `skip`."""
        gradients = [self._checked(gradient) for gradient in gradients]
        if self.done is None:
            with tf.init_scope():
                self.done = tf.Variable(0, trainable=False, dtype=tf.int32)
                self.sums = [
                    None
                    if gradient is None
                    else tf.Variable(tf.zeros(variable.shape, gradient.dtype), trainable=False)
                    for gradient, variable in zip(gradients, variables)
                ]
        added = [self.done.assign_add(1)]
        for total, gradient in zip(self.sums, gradients):
            if total is not None and gradient is not None:
                added.append(total.assign_add(gradient))

        def finish() -> tf.Tensor:
            sums = [None if total is None else total.read_value() for total in self.sums]
            if self.average:
                sums = [None if total is None else total / self.passes for total in sums]
            apply(sums)
            self.forget()
            return tf.constant(0)

        def go_on() -> tf.Tensor:
            skip()
            return tf.constant(0)

        with tf.control_dependencies(added):
            tf.cond(self.done >= self.passes, finish, go_on)

    def forget(self) -> None:
        """Begin anew."""
        if self.done is not None:
            self.done.assign(0)
            for total in self.sums:
                if total is not None:
                    total.assign(tf.zeros_like(total))

    def _checked(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self.sparse_as_dense:
            raise ValueError(
                "sparse gradients cannot be added up with backward_passes_per_step; "
                "pass sparse_as_dense=True"
            )
        return tf.convert_to_tensor(gradient)
