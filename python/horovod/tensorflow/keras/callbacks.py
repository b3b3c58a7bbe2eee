# SPDX-License-Identifier: Apache-2.0
"""Callbacks for model.fit; horovod._keras.callbacks documents them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from horovod._keras import callbacks as _callbacks

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]

_Callback = tf.keras.callbacks.Callback


class BroadcastGlobalVariablesCallback(_callbacks.BroadcastGlobalVariables, _Callback):
    __doc__ = _callbacks.BroadcastGlobalVariables.__doc__

    def __init__(
        self, root_rank: int, device: str = "", local_variables: Iterable[Any] | None = None
    ) -> None:
        super().__init__(root_rank, device, local_variables)


class MetricAverageCallback(_callbacks.MetricAverage, _Callback):
    __doc__ = _callbacks.MetricAverage.__doc__


class LearningRateScheduleCallback(_callbacks.LearningRateSchedule, _Callback):
    __doc__ = _callbacks.LearningRateSchedule.__doc__


class LearningRateWarmupCallback(_callbacks.LearningRateWarmup, _Callback):
    __doc__ = _callbacks.LearningRateWarmup.__doc__


class BestModelCheckpoint(_callbacks.BestModel, tf.keras.callbacks.ModelCheckpoint):
    """Saves the best model so far to the path in its attribute `filepath`.

    Set `filepath` before training. The arguments are those of ModelCheckpoint.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        super().__init__(
            filepath=_callbacks.placeholder(save_weights_only),
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath = None
