"""Gradients of all ranks made one: what optimizers and tapes have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common import groups as common
from horovod.common import settings
from horovod.common.basics import Average
from horovod.common.groups import Groups
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow import xla
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.functions import _plain
from horovod.tensorflow.reductions import Gradient, allreduce, grouped_allreduce


def reduce_gradients(
    gradients: Sequence[Gradient | None],
    *,
    variables: Sequence[Any] | None = None,
    op: int = Average,
    compression: type[Compressor] = Compression.none,
    gradient_predivide_factor: float = 1.0,
    sparse_as_dense: bool = False,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    name: str | None = None,
    use_generic_names: bool = False,
    local_variables: Iterable[Any] = (),
    scale_local_gradients: bool = True,
    device_dense: str = "",
    device_sparse: str = "",
) -> list[Gradient | None]:
    """The reductions of the gradients of all ranks, in their order; None stays None.

    variables: those that the gradients are of; only groups and local_variables need them.
    gradient_predivide_factor: f divides by f before the sum and by size / f after it.
    groups: how many operations to make of them, or lists of variables that go together. By
        default each is an operation of a graph, which starts when its gradient is there. Without a
        graph, and in functions that XLA compiles, they are all one: there they would run one after
        the other.
    name: gradient i is known as <name>.<i>, wherever in a graph it is; without it, by its tensor.
    use_generic_names: they are known as grad_<i>.
    local_variables: their gradients stay as they are on this rank, but for the division by the
        number of ranks that keeps their share in a step (scale_local_gradients).
    """
    results = list(gradients)
    if use_generic_names:
        name = "grad_"
    elif name is not None:
        name = f"{name}."
    if not _is_distributed(process_set):
        return results
    if sparse_as_dense:
        results = [_dense(gradient) for gradient in results]

    local = {_key(variable) for variable in local_variables}
    shared = []
    for i, gradient in enumerate(results):
        if gradient is None:
            continue
        if not local or _key(variables[i]) not in local:  # type: ignore[index]
            shared.append(i)
        elif scale_local_gradients:
            results[i] = _divided(gradient, process_set)

    how = {
        "device_dense": device_dense,
        "device_sparse": device_sparse,
        "compression": compression,
        "op": op,
        "process_set": process_set,
        "ignore_name_scope": name is not None,
    }
    for group in _grouped(shared, groups, variables):
        # A factor changes nothing but the range of the sum, which rows that are gathered have not.
        factor = gradient_predivide_factor
        if any(isinstance(results[i], tf.IndexedSlices) for i in group):
            factor = 1.0
        how |= {"prescale_factor": 1.0 / factor, "postscale_factor": factor}
        how["name"] = None if name is None else f"{name}{group[0]}"
        if len(group) == 1:
            results[group[0]] = allreduce(results[group[0]], **how)
            continue
        for i, gradient in zip(group, grouped_allreduce([results[i] for i in group], **how)):
            results[i] = gradient
    return results


def check_reduction(op: int, gradient_predivide_factor: float, groups: Groups) -> None:
    """ValueError for what reduce_gradients cannot do."""
    common.check_reduction(op, gradient_predivide_factor, groups, _key)


def _is_distributed(process_set: ProcessSet) -> bool:
    """Whether there is anybody else, or may be when the graph that is being made is run."""
    if not process_set.included():
        return False
    return process_set.size() != 1 or settings.flag("HOROVOD_ELASTIC")


def _key(variable: Any) -> Any:
    return _plain(variable).ref()


def _dense(gradient: Gradient | None) -> Gradient | None:
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def _divided(gradient: Gradient, process_set: ProcessSet) -> Gradient:
    ranks = process_set.size()
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(ranks, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(ranks, gradient.dtype)


def _grouped(shared: list[int], groups: Groups, variables: Sequence[Any] | None) -> list[list[int]]:
    """Which gradients go together."""
    if not shared:
        return []
    if not groups:
        together = tf.executing_eagerly() or xla.is_compiling()
        return [shared] if together else [[i] for i in shared]
    return common.grouped(shared, groups, variables, _key)
