# SPDX-License-Identifier: Apache-2.0
"""Code that horovod.keras and horovod.tensorflow.keras share. It imports no framework itself."""

from __future__ import annotations

from typing import Any

from horovod._keras.settings import Settings
from horovod._keras.wrap import distribute
from horovod.common.process_sets import ProcessSet, global_process_set

__all__ = ["create_distributed_optimizer"]

_PRE_TF_2_4_0 = False  # the oldest supported TensorFlow is 2.13


def create_distributed_optimizer(
    keras: Any,
    optimizer: Any,
    name: str | None,
    device_dense: str,
    device_sparse: str,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: int,
    groups: Any,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """hvd.DistributedOptimizer for any module of Keras, such as tf.keras.

    The arguments are those of horovod.tensorflow.keras.DistributedOptimizer.
    """
    settings = Settings(
        compression=compression,
        name=name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    return distribute(keras, optimizer, settings)
