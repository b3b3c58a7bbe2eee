# SPDX-License-Identifier: Apache-2.0
"""Reductions for training: with compression, and of sparse gradients."""

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
    """Whether the number of ranks is a power of two, which Adasum needs."""
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
    """Gather the rows of all ranks. Rows with the same index add up when they are applied."""

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
    """Reduce the tensors of all ranks. The default operation is the average.

    tensor: a tensor, or tf.IndexedSlices, whose rows are gathered instead of reduced.
    average: deprecated; True is op=hvd.Average, False is op=hvd.Sum.
    device_dense, device_sparse: the device for dense tensors and for tf.IndexedSlices.
    compression: hvd.Compression.fp16 or bf16 sends floats with 16 bits.
    op: hvd.Average, Sum, Adasum, Min, Max or Product.
    prescale_factor, postscale_factor: multiply the tensor before and after the reduction.
    name: the name of the operation, the same on all ranks. Without it, ranks have to make the calls
        in the same order, or to have the same graph.
    process_set: the ranks that take part.
    ignore_name_scope: leave out the name scope of the graph from the name.

    Returns a tensor, or tf.IndexedSlices if `tensor` is one.
    Raises NotImplementedError for tf.IndexedSlices with other operations than Average and Sum, or
    with factors.
    """
    op = reduce_op(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        if op not in (Average, Sum):
            raise NotImplementedError("tf.IndexedSlices can be summed or averaged only")
        if (prescale_factor, postscale_factor) != (1.0, 1.0):
            raise NotImplementedError(
                "tf.IndexedSlices cannot be scaled; leave prescale_factor and postscale_factor at 1"
            )
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
    """`allreduce` for several tensors as one operation; returns a list.

    Each tf.IndexedSlices is an operation of its own.
    """
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
    """Reduce the tensors of all ranks and return this rank's share of the rows.

    The first ranks get one row more if the rows cannot be divided evenly.
    op: hvd.Average or hvd.Sum. The other arguments are those of `allreduce`.
    """
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
    """`reducescatter` for several tensors as one operation; returns a list."""
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
