# SPDX-License-Identifier: Apache-2.0
"""Optimizers that reduce gradients across ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common.basics import Adasum, Average, size
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import groups_of
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.functions import _plain
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradients import Groups, check_reduction, reduce_gradients
from horovod.tensorflow.reductions import allreduce
from horovod.tensorflow.util import in_session_graph

_v1 = tf.compat.v1
_LegacyOptimizer = _v1.train.Optimizer


class _DistributedOptimizer(_LegacyOptimizer):
    """An optimizer of TensorFlow 1 that wraps another one; subclasses change some of its methods.

    Other libraries test with isinstance of this class whether an optimizer is distributed.
    """

    def __init__(self, optimizer: Any, name: str | None, use_locking: bool) -> None:
        super().__init__(use_locking, name or f"Distributed{type(optimizer).__name__}")
        self._optimizer = optimizer
        self._local_vars: dict[Any, Any] = {}

    def register_local_var(self, var: Any) -> None:
        """Exclude a variable from the reduction; its gradient stays on this rank."""
        self._local_vars[_plain(var).ref()] = var

    def _reduction_name(self) -> str | None:
        """The prefix for names of reductions; None names them after their tensors.

        In a graph for a session, the names of gradient tensors differ between ranks with different
        numbers of local variables. The name scope distinguishes several optimizers.
        """
        return "HorovodAllreduce_grad" if in_session_graph() else None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.variables(*args, **kwargs)


class _DistributedGradientOptimizer(_DistributedOptimizer):
    """Reduces gradients after they are computed and before they are applied."""

    def __init__(
        self,
        optimizer: Any,
        name: str | None,
        use_locking: bool,
        backward_passes_per_step: int,
        average_aggregated_gradients: bool,
        scale_local_gradients: bool,
        how: dict[str, Any],
    ) -> None:
        super().__init__(optimizer, name, use_locking)
        self._how = how
        self._scale_local_gradients = scale_local_gradients
        self._aggregation = LocalGradientAggregationHelper(
            backward_passes_per_step,
            self._reduce,
            how["sparse_as_dense"],
            average_aggregated_gradients,
        )

    def _reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        with tf.name_scope(f"{self._name}_Allreduce"):
            return reduce_gradients(
                gradients,
                variables=variables,
                local_variables=self._local_vars.values(),
                scale_local_gradients=self._scale_local_gradients,
                name=self._reduction_name(),
                ignore_name_scope=False,
                **self._how,
            )

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The pairs (gradient, variable) with gradients that are reduced across ranks."""
        pairs = list(self._optimizer.compute_gradients(*args, **kwargs))
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        reduced = self._aggregation.compute_gradients(gradients, variables)
        return list(zip(reduced, variables))

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: Any = None
    ) -> Any:
        """Apply the result of compute_gradients; with several passes, only after the last one."""
        pairs = list(grads_and_vars)
        return self._aggregation.apply_gradients(
            lambda: self._optimizer.apply_gradients(pairs, global_step, name),
            self._optimizer,
            pairs,
            global_step=global_step,
            name=name,
        )


class _DistributedAdasumOptimizer(_DistributedOptimizer):
    """Takes the user's step on each rank, then combines the changes of the variables by Adasum.

    Adasum averages parallel changes and adds orthogonal ones.
    """

    def __init__(
        self,
        optimizer: Any,
        name: str | None,
        use_locking: bool,
        backward_passes_per_step: int,
        compression: type[Compressor],
        device_dense: str,
        device_sparse: str,
    ) -> None:
        super().__init__(optimizer, name, use_locking)
        if backward_passes_per_step <= 0:
            raise ValueError(
                f"backward_passes_per_step has to be above 0, not {backward_passes_per_step}"
            )
        self._passes = backward_passes_per_step
        self._counter: Any = None
        self._starts: dict[Any, Any] = {}
        self._how = {
            "compression": compression,
            "device_dense": device_dense,
            "device_sparse": device_sparse,
            "op": Adasum,
        }

    def _combine(self, variables: Sequence[Any], starts: Sequence[Any]) -> Any:
        """Set variables to their values before the step plus the combined changes of all ranks."""
        with tf.name_scope(f"{self._name}_Allreduce"):
            assigned = []
            name = self._reduction_name()
            for i, (variable, start) in enumerate(zip(variables, starts)):
                own = variable.read_value() - start
                change = allreduce(own, name=name and f"{name}.{i}", **self._how)
                assigned.append(variable.assign(start + change))
        return tf.group(*assigned)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: Any = None
    ) -> Any:
        """Take a step of the wrapped optimizer, then combine its change with the other ranks."""
        pairs = list(grads_and_vars)
        variables = [
            variable
            for gradient, variable in pairs
            if gradient is not None and _plain(variable).ref() not in self._local_vars
        ]
        if size() == 1:
            return self._optimizer.apply_gradients(pairs, global_step, name)
        if self._passes > 1:
            return self._apply_some(pairs, variables, global_step, name)
        starts = [tf.identity(variable.read_value()) for variable in variables]
        with tf.control_dependencies(starts):
            applied = self._optimizer.apply_gradients(pairs, global_step, name)
        with tf.control_dependencies([] if applied is None else [applied]):
            return self._combine(variables, starts)

    def _apply_some(
        self, pairs: list[tuple[Any, Any]], variables: list[Any], global_step: Any, name: Any
    ) -> Any:
        """Take a local step; after backward_passes_per_step of them, combine their change."""
        if self._counter is None:
            self._counter = _v1.Variable(0, trainable=False, use_resource=True, name="passes")
            for variable in variables:
                self._starts[variable.ref()] = _v1.Variable(
                    tf.zeros_like(variable), trainable=False, use_resource=True, name="start"
                )
        starts = [self._starts[variable.ref()] for variable in variables]

        def begin() -> Any:
            return tf.group(*[s.assign(v.read_value()) for s, v in zip(starts, variables)])

        def end() -> Any:
            values = [tf.identity(start.read_value()) for start in starts]
            with tf.control_dependencies([self._counter.assign(0)]):
                return self._combine(variables, values)

        passes = self._counter.read_value()
        begun = tf.cond(tf.equal(passes, 0), begin, tf.no_op)
        with tf.control_dependencies([] if begun is None else [begun]):
            applied = self._optimizer.apply_gradients(pairs, global_step, name)
        with tf.control_dependencies([] if applied is None else [applied]):
            counted = self._counter.assign_add(1)
            is_last = tf.equal(counted, self._passes)
        return tf.cond(is_last, end, tf.no_op)


def DistributedOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Make an optimizer that applies gradients which are reduced across ranks.

    optimizer: an optimizer of TensorFlow 1 (tf.compat.v1.train) or of Keras.
    name: the name of the new optimizer; by default Distributed and the class of `optimizer`.
    use_locking: as for optimizers of TensorFlow 1.
    device_dense, device_sparse: the device for dense and for sparse gradients.
    compression: hvd.Compression.fp16 or bf16 sends floats with 16 bits.
    sparse_as_dense: turn sparse gradients into dense ones.
    backward_passes_per_step: the number of gradients that each rank sums before the reduction.
    op: hvd.Average or Sum; for optimizers of TensorFlow 1 also Adasum.
    gradient_predivide_factor: f divides gradients by f before the sum and by size / f after it.
        Needs op=hvd.Average.
    average_aggregated_gradients: divide the sums by backward_passes_per_step.
    num_groups: deprecated; use groups.
    groups: the number of groups to reduce gradients in, or lists of variables, one per group.
    process_set: the ranks that train together.
    scale_local_gradients: divide gradients of variables that `register_local_var` excludes by the
        number of ranks.

    Returns a new optimizer; one of Keras is of a subclass of the class of `optimizer`.
    Raises ValueError for other optimizers and for arguments that do not fit together.
    """
    groups = groups_of(num_groups, groups)
    check_reduction(op, gradient_predivide_factor, groups)
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("average_aggregated_gradients has no meaning with op=hvd.Adasum")
    how = {
        "device_dense": device_dense,
        "device_sparse": device_sparse,
        "compression": compression,
        "sparse_as_dense": sparse_as_dense,
        "op": op,
        "gradient_predivide_factor": gradient_predivide_factor,
        "groups": groups,
        "process_set": process_set,
    }
    if not isinstance(optimizer, _v1.train.Optimizer):
        return _keras_optimizer(
            optimizer,
            name=name,
            backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients,
            scale_local_gradients=scale_local_gradients,
            **how,
        )
    if op == Adasum:
        return _DistributedAdasumOptimizer(
            optimizer,
            name,
            use_locking,
            backward_passes_per_step,
            compression,
            device_dense,
            device_sparse,
        )
    return _DistributedGradientOptimizer(
        optimizer,
        name,
        use_locking,
        backward_passes_per_step,
        average_aggregated_gradients,
        scale_local_gradients,
        how,
    )


def _keras_optimizer(optimizer: Any, **arguments: Any) -> Any:
    if not hasattr(optimizer, "get_config"):
        raise ValueError(
            "optimizer has to be one of tf.compat.v1.train or of Keras, not "
            f"{type(optimizer).__module__}.{type(optimizer).__name__}"
        )
    if arguments["op"] == Adasum:
        raise ValueError("op=hvd.Adasum works with optimizers of tf.compat.v1.train only")
    import horovod.tensorflow.keras as hvd_keras

    return hvd_keras.DistributedOptimizer(optimizer, **arguments)
