# SPDX-License-Identifier: Apache-2.0
"""Reductions as training needs them: compressed on the way, and of sparse gradients too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import tensorflow as tf

from horovod.common.basics import Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set, place_in
from horovod.common.util import num_rank_is_power_2, reduce_op
from horovod.tensorflow import collectives
from horovod.tensorflow.compression import Compression, Compressor

Gradient = Union[tf.Tensor, tf.IndexedSlices]


def check_num_rank_power_of_2(num_rank: int) -> bool:
    """Whether Adasum can work with so many ranks."""
    return num_rank_is_power_2(num_rank)


def _allreduce_slices(
    slices: tf.IndexedSlices,
    device_sparse: str,
    compression: type[Compressor],
    op: int,
    name: str | None,
    process_set: ProcessSet,
    ignore_name_scope: bool,
) -> tf.IndexedSlices:
    """Everybody's rows: those of the same index add up when they are applied."""

    def gather(tensor: Any, part: str) -> Any:
        part_name = None if name is None else f"{name}_{part}"
        return collectives.allgather(tensor, part_name, ignore_name_scope, process_set)

    with tf.device(device_sparse or None):
        compressed, context = compression.compress(slices.values)
        values = compression.decompress(gather(compressed, "values"), context)
        indices = gather(slices.indices, "indices")
        if op == Average:
            _, ranks = place_in(process_set.process_set_id)
            values = values / tf.cast(ranks, values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def allreduce(
    tensor: Gradient,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Gradient:
    """The average of all ranks' tensors, or what `op` says, scaled before and after.

    tensor: also tf.IndexedSlices, whose rows are gathered instead of reduced.
    name: the same on all ranks; without it, ranks have to make the calls in the same order, or to
        have the same graph.
    """
    op = reduce_op(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        if op not in (Average, Sum):
            raise NotImplementedError("tf.IndexedSlices can be summed or averaged only")
        if (prescale_factor, postscale_factor) != (1.0, 1.0):
            raise NotImplementedError("tf.IndexedSlices cannot be scaled on the way")
        return _allreduce_slices(
            tensor, device_sparse, compression, op, name, process_set, ignore_name_scope
        )
    with tf.device(device_dense or None):
        compressed, context = compression.compress(tf.convert_to_tensor(tensor))
        reduced = collectives._allreduce(
            compressed,
            name,
            op,
            prescale_factor,
            postscale_factor,
            ignore_name_scope,
            process_set,
        )
        return compression.decompress(reduced, context)


def grouped_allreduce(
    tensors: Sequence[Gradient],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Gradient]:
    """The same for tensors that complete as one; tf.IndexedSlices go by themselves."""
    if not tensors:
        return list(tensors)
    op = reduce_op(op, average)
    factors = (prescale_factor, postscale_factor)
    results: list[Any] = [None] * len(tensors)
    dense: list[int] = []
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, tf.IndexedSlices):
            dense.append(i)
            continue
        part_name = None if name is None else f"{name}_{i + 1}of{len(tensors)}"
        results[i] = allreduce(
            tensor,
            None,
            device_dense,
            device_sparse,
            compression,
            op,
            *factors,
            part_name,
            process_set,
            ignore_name_scope,
        )
    with tf.device(device_dense or None):
        packed = [compression.compress(tf.convert_to_tensor(tensors[i])) for i in dense]
        reduced = collectives._grouped_allreduce(
            [tensor for tensor, _ in packed], name, op, *factors, ignore_name_scope, process_set
        )
        for i, tensor, (_, context) in zip(dense, reduced, packed):
            results[i] = compression.decompress(tensor, context)
    return results


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """This rank's rows of the reduction; the first ranks get one more if it does not come out."""
    with tf.device(device_dense or None):
        compressed, context = compression.compress(tf.convert_to_tensor(tensor))
        reduced = collectives._reducescatter(
            compressed,
            name,
            op,
            ignore_name_scope,
            process_set,
            prescale_factor,
            postscale_factor,
        )
        return compression.decompress(reduced, context)


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[tf.Tensor]:
    """The same for tensors that complete as one."""
    if not tensors:
        return list(tensors)
    with tf.device(device_dense or None):
        packed = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
        reduced = collectives._grouped_reducescatter(
            [tensor for tensor, _ in packed],
            None,
            op,
            False,
            process_set,
            prescale_factor,
            postscale_factor,
        )
        return [
            compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, packed)
        ]
