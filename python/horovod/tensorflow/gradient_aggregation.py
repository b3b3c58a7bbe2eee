# SPDX-License-Identifier: Apache-2.0
"""Sums the gradients of several passes on this rank before they are reduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.functions import _plain
from horovod.tensorflow.gradients import divided

Reduce = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


class LocalGradientAggregationHelper:
    """Sums gradients over `backward_passes_per_step` calls and reduces the sum on the last.

    allreduce_func: reduces gradients across ranks; takes gradients and their variables.
    sparse_as_dense: turn tf.IndexedSlices into dense tensors; they cannot be summed otherwise.
    average_aggregated_gradients: divide the sum by the number of passes.
    rank: ignored.
    optimizer_type: selects the step counter: optimizer.iterations or the argument global_step.
    process_set, scale_local_gradients: divide gradients of local variables by the size of the set.
    name: prefix for the names of the variables that hold the sums.

    Works in graphs of TensorFlow 1, in tf.function and eagerly: the sums are variables. Each call
    adds to them and checks whether it is the last call of its step.

    Raises ValueError for backward_passes_per_step below 1 or an unknown optimizer_type.
    """

    _OPTIMIZER_TYPE_KERAS = "keras"
    _OPTIMIZER_TYPE_LEGACY = "legacy"

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Reduce,
        sparse_as_dense: bool = False,
        average_aggregated_gradients: bool = False,
        rank: int | None = None,
        optimizer_type: str = _OPTIMIZER_TYPE_LEGACY,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
        name: str = "",
    ) -> None:
        if backward_passes_per_step <= 0:
            raise ValueError(
                f"backward_passes_per_step has to be above 0, not {backward_passes_per_step}"
            )
        if optimizer_type not in (self._OPTIMIZER_TYPE_KERAS, self._OPTIMIZER_TYPE_LEGACY):
            raise ValueError(
                "optimizer_type has to be LocalGradientAggregationHelper._OPTIMIZER_TYPE_KERAS or "
                f"_OPTIMIZER_TYPE_LEGACY, not {optimizer_type!r}"
            )
        self.backward_passes_per_step = backward_passes_per_step
        self._allreduce = allreduce_func
        self._sparse_as_dense = sparse_as_dense
        self._average = average_aggregated_gradients
        self._optimizer_type = optimizer_type
        self._process_set = process_set
        self._scale_local = scale_local_gradients
        self._prefix = f"{name}_" if name else ""
        self._local: set[Any] = set()
        self._sums: list[Any] = []
        self._counter: Any = None
        self._is_last: Any = None  # in a graph: a tensor, whether this pass is the last of its step

    def register_local_var(self, var: Any) -> None:
        """Exclude a variable from the reduction; its gradient stays on this rank."""
        self._local.add(_plain(var).ref())

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
            self._counter = _variable(tf.zeros([], tf.int32), f"{self._prefix}aggregation_counter")
            self._sums = [
                None
                if gradient is None
                else _variable(_zeros(gradient), f"{self._prefix}aggregated_gradient")
                for gradient in gradients
            ]

    def _reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Reduce gradients by allreduce_func, except those of local variables."""
        if not self._local:
            return list(self._allreduce(gradients, variables))
        results = list(gradients)
        is_local = [_plain(variable).ref() in self._local for variable in variables]
        shared = [i for i, local in enumerate(is_local) if not local]
        reduced = self._allreduce([results[i] for i in shared], [variables[i] for i in shared])
        for i, gradient in zip(shared, reduced):
            results[i] = gradient
        if self._scale_local and self._process_set.included():
            ranks = self._process_set.size()
            results = [divided(g, ranks) if local else g for g, local in zip(results, is_local)]
        return results

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> list[Any]:
        """Add the gradients of one pass.

        Returns the reduced gradients after the last pass of a step, and the sums so far after
        other passes. Use apply_gradients, which does not apply the latter.
        Raises ValueError for tf.IndexedSlices without sparse_as_dense, if there are several passes.
        """
        variables = list(vars)
        if self.backward_passes_per_step == 1:
            return self._reduce(list(grads), variables)
        gradients = [self._dense(gradient) for gradient in grads]
        if self._counter is None:
            self._make_variables(gradients)
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        with tf.control_dependencies([self._counter.assign_add(1)]):
            added = [self._sums[i].assign_add(gradients[i]) for i in present]
        with tf.control_dependencies(added):
            sums = [tf.identity(self._sums[i]) for i in present]
            is_last = tf.equal(tf.identity(self._counter), self.backward_passes_per_step)

        def finish() -> list[Any]:
            # Copies inside this branch: a session of TensorFlow 1 does not wait for tensors outside
            # of it. With one rank nothing reduces the sums, and they could be cleared before they
            # are read.
            own = [tf.identity(tensor) for tensor in sums]
            reduced = self._reduce(own, [variables[i] for i in present])
            if self._average:
                passes = self.backward_passes_per_step
                reduced = [tensor / tf.cast(passes, tensor.dtype) for tensor in reduced]
            with tf.control_dependencies(reduced):
                cleared = [self._sums[i].assign(tf.zeros_like(self._sums[i])) for i in present]
                cleared.append(self._counter.assign(0))
            with tf.control_dependencies(cleared):
                return [tf.identity(tensor) for tensor in reduced]

        self._is_last = None if tf.executing_eagerly() else is_last
        results: list[Any] = [None] * len(gradients)
        for i, tensor in zip(present, tf.cond(is_last, finish, lambda: sums)):
            results[i] = tensor
        return results

    def apply_gradients(
        self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Call the closure if this pass was the last of its step; otherwise only count the step.

        optimizer: the optimizer whose apply_gradients the closure calls.
        args, kwargs: the arguments of that apply_gradients.
        """
        if self.backward_passes_per_step == 1:
            return apply_grads_closure()

        def run(function: Callable[[], Any]) -> Callable[[], Any]:
            def branch() -> Any:
                done = function()
                if tf.executing_eagerly():
                    return None
                waited_for = isinstance(done, (tf.Tensor, tf.Operation, tf.Variable))
                with tf.control_dependencies([done] if waited_for else []):
                    return tf.no_op()

            return branch

        return tf.cond(
            self._is_end_of_step(),
            run(apply_grads_closure),
            run(lambda: self._count_step(optimizer, *args, **kwargs)),
        )

    def _is_end_of_step(self) -> Any:
        """Whether compute_gradients has reduced the sums."""
        # In a session of TensorFlow 1, reading the counter does not wait for the branch that clears
        # it, so we use the condition of that branch.
        in_graph = self._is_last is not None and not tf.executing_eagerly()
        if in_graph and self._is_last.graph is tf.compat.v1.get_default_graph():
            return self._is_last
        return tf.equal(tf.identity(self._counter), 0)

    def _count_step(
        self,
        optimizer: Any,
        grads_and_vars: Any = None,
        global_step: Any = None,
        *_: Any,
        **__: Any,
    ) -> Any:
        if self._optimizer_type == self._OPTIMIZER_TYPE_KERAS:
            return optimizer.iterations.assign_add(1)
        return None if global_step is None else global_step.assign_add(1)


def _zeros(gradient: Any) -> Any:
    if not gradient.shape.is_fully_defined():
        raise ValueError(
            f"gradients of unknown shape {gradient.shape} cannot be summed over several passes"
        )
    return tf.zeros(gradient.shape, gradient.dtype)


def _variable(initial: Any, name: str) -> Any:
    if tf.executing_eagerly():
        return tf.Variable(initial, trainable=False, name=name)
    # In a graph of TensorFlow 1, so that the user's global initializer finds it.
    return tf.compat.v1.Variable(initial, trainable=False, use_resource=True, name=name)
