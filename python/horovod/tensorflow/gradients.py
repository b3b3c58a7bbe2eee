# SPDX-License-Identifier: Apache-2.0
"""The reduction of gradients that optimizers and tapes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    ignore_name_scope: bool = True,
    local_variables: Iterable[Any] = (),
    scale_local_gradients: bool = True,
    device_dense: str = "",
    device_sparse: str = "",
) -> list[Gradient | None]:
    """Reduce gradients across ranks. Returns them in their order; None stays None.

    variables: the variables of the gradients; only groups and local_variables need them.
    gradient_predivide_factor: f divides by f before the sum and by size / f after it.
    groups: the number of operations, or lists of variables, one list per operation. By default each
        gradient of a graph is one operation, which starts when the gradient is computed. Eagerly
        and in functions that XLA compiles, operations run one after the other, so all gradients are
        one operation there.
    name: gradient i is named <name>.<i>; without a name, after its tensor. i counts the gradients
        of variables that are not local, because the number of local variables may differ between
        ranks. A gradient that is None is counted.
    use_generic_names: gradient i is named grad_<i>.
    ignore_name_scope: leave out the name scope of the graph from these names.
    local_variables: variables whose gradients stay on this rank.
    scale_local_gradients: divide the gradients of local variables by the number of ranks, so that
        their share in a step is the same.
    """
    results = list(gradients)
    if not _is_distributed(process_set):
        return results
    if sparse_as_dense:
        results = [_dense(gradient) for gradient in results]
    places, local = _places(variables, local_variables, len(results))
    if scale_local_gradients:
        for i in local:
            results[i] = divided(results[i], process_set.size())

    named = name is not None or use_generic_names
    prefix = "grad_" if use_generic_names else f"{name}."
    how = {
        "device_dense": device_dense,
        "device_sparse": device_sparse,
        "compression": compression,
        "op": op,
        "process_set": process_set,
        "ignore_name_scope": named and ignore_name_scope,
    }
    shared = [i for i in places if results[i] is not None]
    for group in _grouped(shared, groups, variables):
        # A factor only changes the range of the sum. Sparse rows are gathered, not summed.
        factor = gradient_predivide_factor
        if any(isinstance(results[i], tf.IndexedSlices) for i in group):
            factor = 1.0
        how |= {"prescale_factor": 1.0 / factor, "postscale_factor": factor}
        how["name"] = f"{prefix}{places[group[0]]}" if named else None
        if len(group) == 1:
            results[group[0]] = allreduce(results[group[0]], **how)
            continue
        for i, gradient in zip(group, grouped_allreduce([results[i] for i in group], **how)):
            results[i] = gradient
    return results


def make_allreduce_grads_fn(
    name: str,
    device_dense: str,
    device_sparse: str,
    compression: type[Compressor],
    sparse_as_dense: bool,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[..., list[Gradient | None]]:
    """Make a function that reduces gradients, given them and their variables, in a name scope."""
    check_reduction(op, gradient_predivide_factor, groups)

    def allreduce_grads(
        grads: Iterable[Gradient | None], vars: Any = None, use_generic_names: bool = False
    ) -> list[Gradient | None]:
        with tf.name_scope(f"{name}_Allreduce"):
            return reduce_gradients(
                list(grads),
                variables=None if vars is None else list(vars),
                use_generic_names=use_generic_names,
                device_dense=device_dense,
                device_sparse=device_sparse,
                compression=compression,
                sparse_as_dense=sparse_as_dense,
                op=op,
                gradient_predivide_factor=gradient_predivide_factor,
                groups=groups,
                process_set=process_set,
            )

    return allreduce_grads


def check_reduction(op: int, gradient_predivide_factor: float, groups: Groups) -> None:
    """Raise ValueError for arguments that reduce_gradients does not support."""
    common.check_reduction(op, gradient_predivide_factor, groups, _key)


def _is_distributed(process_set: ProcessSet) -> bool:
    """Whether there are other ranks, or may be when the graph runs that is being built."""
    if not process_set.included():
        return False
    return process_set.size() != 1 or settings.flag("HOROVOD_ELASTIC")


def _key(variable: Any) -> Any:
    return _plain(variable).ref()


def _places(
    variables: Sequence[Any] | None, local_variables: Iterable[Any], count: int
) -> tuple[dict[int, int], list[int]]:
    """The number of each gradient among those of shared variables; and the local ones."""
    keys = {_key(variable) for variable in local_variables}
    if not keys:
        return {i: i for i in range(count)}, []
    places: dict[int, int] = {}
    local = []
    for i in range(count):
        if _key(variables[i]) in keys:  # type: ignore[index]
            local.append(i)
        else:
            places[i] = len(places)
    return places, local


def _dense(gradient: Gradient | None) -> Gradient | None:
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def divided(gradient: Gradient | None, ranks: int) -> Gradient | None:
    """Divide a gradient that stays on this rank, so that its share is as in an average."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(ranks, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(ranks, gradient.dtype)


def _grouped(shared: list[int], groups: Groups, variables: Sequence[Any] | None) -> list[list[int]]:
    """The gradients of each operation."""
    if not shared:
        return []
    if not groups:
        together = tf.executing_eagerly() or xla.is_compiling()
        return [shared] if together else [[i] for i in shared]
    return common.grouped(shared, groups, variables, _key)
