# SPDX-License-Identifier: Apache-2.0
"""Batch normalization over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod.common.basics import Average, size
from horovod.tensorflow.reductions import allreduce


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization with the mean and variance of the batches of all ranks.

    Every rank has the same weight, even if the batch sizes differ.
    fused: has to be False; ValueError otherwise.
    """

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused or fused is None:
            raise ValueError("SyncBatchNormalization cannot be fused: pass fused=False")
        super().__init__(**kwargs)

    def _moments(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        mean, variance = super()._moments(*args, **kwargs)
        if size() == 1:
            return mean, variance
        # The mean of squares can be averaged across ranks; the variance cannot.
        both = tf.stack([mean, variance + tf.square(mean)])
        mean, mean_square = tf.unstack(allreduce(both, op=Average), num=2)
        return mean, mean_square - tf.square(mean)
