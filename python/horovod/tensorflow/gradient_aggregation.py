"""Gradients of several passes, summed on this rank before ranks meet: fewer, larger steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Reduce = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


class LocalGradientAggregationHelper:
    """Sums gradients over `backward_passes_per_step` calls and reduces the sum on the last.

    allreduce_func: makes one of all ranks' gradients, given those and their variables.
    average_aggregated_gradients: divides the sum by the number of passes.

    Works in graphs of TensorFlow 1, in tf.function and without a graph: the sums are variables, and
    each call adds to them and asks whether it is the last of its step.
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Reduce,
        sparse_as_dense: bool = False,
        average_aggregated_gradients: bool = False,
    ) -> None:
        if backward_passes_per_step <= 0:
            raise ValueError(
                f"backward_passes_per_step has to be above 0, not {backward_passes_per_step}"
            )
        self.passes = backward_passes_per_step
        self._reduce = allreduce_func
        self._sparse_as_dense = sparse_as_dense
        self._average = average_aggregated_gradients
        self._sums: list[Any] = []
        self._counter: Any = None

    def _dense(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self._sparse_as_dense:
            raise ValueError(
                "tf.IndexedSlices cannot be summed over several passes; pass sparse_as_dense=True"
            )
        return tf.convert_to_tensor(gradient)

    def _make_variables(self, gradients: Sequence[Any]) -> None:
        with tf.init_scope():
            self._counter = _variable(tf.zeros([], tf.int32), "aggregation_counter")
            self._sums = [
                None if gradient is None else _variable(_zeros(gradient), "aggregated_gradient")
                for gradient in gradients
            ]

    def compute_gradients(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Of the last pass of a step: the reduced gradients. Of others: what there is so far.

        Those are not to be applied; see apply_gradients.
        """
        gradients = [self._dense(gradient) for gradient in gradients]
        if self.passes == 1:
            return list(self._reduce(gradients, variables))
        if self._counter is None:
            self._make_variables(gradients)
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        with tf.control_dependencies([self._counter.assign_add(1)]):
            added = [self._sums[i].assign_add(gradients[i]) for i in present]
        with tf.control_dependencies(added):
            sums = [tf.identity(self._sums[i]) for i in present]
            is_last = tf.equal(tf.identity(self._counter), self.passes)

        def reduce_sums() -> list[Any]:
            reduced = list(self._reduce(sums, [variables[i] for i in present]))
            if self._average:
                reduced = [tensor / tf.cast(self.passes, tensor.dtype) for tensor in reduced]
            with tf.control_dependencies(reduced):
                cleared = [self._sums[i].assign(tf.zeros_like(self._sums[i])) for i in present]
                cleared.append(self._counter.assign(0))
            with tf.control_dependencies(cleared):
                return [tf.identity(tensor) for tensor in reduced]

        results: list[Any] = [None] * len(gradients)
        for i, tensor in zip(present, tf.cond(is_last, reduce_sums, lambda: sums)):
            results[i] = tensor
        return results

    def apply_gradients(
        self, apply: Callable[[], Any], gradients: Sequence[Any], skip: Callable[[], Any]
    ) -> Any:
        """`apply()` if this pass was the last of its step, else `skip()`.

        gradients: what compute_gradients has returned, which comes first.
        """
        if self.passes == 1:
            return apply()

        def run(function: Callable[[], Any]) -> Callable[[], Any]:
            def branch() -> Any:
                done = function()
                with tf.control_dependencies([] if done is None else [done]):
                    return tf.no_op() if not tf.executing_eagerly() else None

            return branch

        with tf.control_dependencies([g for g in gradients if g is not None]):
            is_new = tf.equal(tf.identity(self._counter), 0)
        return tf.cond(is_new, run(apply), run(skip))


# Without a graph it is the same.
LocalGradientAggregationHelperEager = LocalGradientAggregationHelper


def _zeros(gradient: Any) -> Any:
    if not gradient.shape.is_fully_defined():
        raise ValueError(
            f"gradients of unknown shape {gradient.shape} cannot be summed over several passes"
        )
    return tf.zeros(gradient.shape, gradient.dtype)


def _variable(initial: Any, name: str) -> Any:
    if tf.executing_eagerly():
        return tf.Variable(initial, trainable=False, name=name)
    # In a graph of TensorFlow 1, where the user's initializer has to find it.
    return tf.compat.v1.Variable(initial, trainable=False, use_resource=True, name=name)
