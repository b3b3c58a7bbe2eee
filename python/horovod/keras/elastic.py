# SPDX-License-Identifier: Apache-2.0
"""Training with model.fit that continues after a failure: `hvd.elastic.run`."""

from __future__ import annotations

import keras

from horovod._keras import elastic as _elastic
from horovod._keras.elastic import KerasState, run

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]

_Callback = keras.callbacks.Callback


class CommitStateCallback(_elastic.CommitState, _Callback):
    __doc__ = _elastic.CommitState.__doc__


class UpdateBatchStateCallback(_elastic.UpdateBatchState, _Callback):
    __doc__ = _elastic.UpdateBatchState.__doc__


class UpdateEpochStateCallback(_elastic.UpdateEpochState, _Callback):
    __doc__ = _elastic.UpdateEpochState.__doc__
