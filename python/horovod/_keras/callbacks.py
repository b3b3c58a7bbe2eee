# SPDX-License-Identifier: Apache-2.0
"""Callbacks for model.fit without their base class, which differs between versions of Keras."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from typing import Any, Union

import numpy as np

from horovod._keras.functions import (
    array_of,
    broadcast_variables,
    shared_variables,
    sync_model,
)
from horovod.common import arrays
from horovod.common.basics import size

Multiplier = Union[float, Callable[[float], float]]


class BroadcastGlobalVariables:
    """Copies the weights and the optimizer state of the root to all ranks after the first batch.

    Not before the first batch, because the optimizer creates its variables in it.

    root_rank: the rank whose values are copied.
    device: ignored.
    local_variables: variables that are not overwritten.
    """

    model: Any

    def __init__(
        self, root_rank: int, device: str = "", local_variables: Iterable[Any] | None = None
    ) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.local_variables = list(local_variables or ())
        self.broadcast_done = False

    def register_local_var(self, var: Any) -> None:
        """Exclude a variable: each rank keeps its own value."""
        self.local_variables.append(var)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.broadcast_done:
            return
        sync_model(self.model)
        optimizer = getattr(self.model, "optimizer", None)
        variables = shared_variables(self.model, optimizer, self.local_variables)
        broadcast_variables(variables, self.root_rank, "BroadcastGlobalVariablesCallback")
        self.broadcast_done = True


class MetricAverage:
    """Averages the metrics of an epoch across all ranks.

    Put it before callbacks that read metrics, such as ReduceLROnPlateau or TensorBoard.

    device: ignored.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not logs:
            return
        names = sorted(name for name, value in logs.items() if _is_number(value))
        values = np.array([float(logs[name]) for name in names])
        for name, value in zip(names, arrays.allreduce(values, "MetricAverageCallback")):
            logs[name] = float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) or getattr(value, "shape", None) == ()


class LearningRateSchedule:
    """Sets the learning rate to initial_lr * multiplier(epoch) from start_epoch to end_epoch.

    multiplier: a function of the epoch, or a number m, which means m ** (epoch - start_epoch).
    start_epoch, end_epoch: the first epoch, and the first one after the last; by default no end.
    staircase: set the rate once at the beginning of each epoch. Otherwise set it for each batch,
        with fractions of an epoch.
    momentum_correction: when the learning rate changes, scale the momentum by the same factor for
        one step, because the accumulated momentum was scaled by the old rate.
    steps_per_epoch: the number of batches of an epoch; needed if Keras does not know it.

    Raises ValueError without initial_lr; and at the beginning of the training if the number of
    batches is needed and unknown.
    """

    model: Any
    params: dict[str, Any]

    def __init__(
        self,
        initial_lr: float,
        multiplier: Multiplier,
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("initial_lr is missing; pass the initial learning rate")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch: int | None = None
        self._momentum_to_restore: float | None = None
        if callable(multiplier):
            self.multiplier = multiplier
        else:
            factor = float(multiplier)
            self.multiplier = lambda epoch: factor ** (epoch - start_epoch)

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = _steps_per_epoch(self.params)
            if not self.steps_per_epoch:
                raise ValueError(
                    "Keras does not know how many batches an epoch has; pass steps_per_epoch="
                )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        epoch = self.current_epoch or 0
        if epoch < self.start_epoch or (self.end_epoch is not None and epoch >= self.end_epoch):
            return
        if not self.staircase:
            self._set_rate(epoch + batch / (self.steps_per_epoch or 1))
        elif batch == 0:
            self._set_rate(epoch)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._momentum_to_restore is not None:
            self._optimizer().momentum = self._momentum_to_restore
            self._momentum_to_restore = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs["lr"] = self._rate()

    def _optimizer(self) -> Any:
        """The optimizer that has the learning rate and the momentum."""
        return getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)

    def _rate(self) -> float:
        sync_model(self.model)
        return float(array_of(self._optimizer().learning_rate))

    def _set_rate(self, epoch: float) -> None:
        old = self._rate()
        new = self.initial_lr * self.multiplier(epoch)
        optimizer = self._optimizer()
        optimizer.learning_rate = new
        # A difference within rounding is not a change: Keras stores the rate as float32.
        if self.momentum_correction and old > 0 and not np.isclose(new, old, rtol=1e-6, atol=0):
            self._correct_momentum(optimizer, new / old)

    def _correct_momentum(self, optimizer: Any, factor: float) -> None:
        momentum = getattr(optimizer, "momentum", None)
        if momentum is None:
            return
        if hasattr(momentum, "assign"):
            self._momentum_to_restore = float(array_of(momentum))
            optimizer.momentum = self._momentum_to_restore * factor
            return
        # A momentum that is a plain number is compiled into the step and cannot be changed. Scaling
        # the accumulated momentum instead has the same effect.
        for name in ("momentums", "_momentums"):
            for variable in getattr(optimizer, name, None) or ():
                if variable is not None:
                    variable.assign(variable * factor)


def _steps_per_epoch(params: dict[str, Any]) -> int | None:
    """The number of batches of an epoch, if Keras knows it."""
    samples, rows = params.get("samples"), params.get("batch_size")
    # In a graph Keras reports the number of samples.
    if not params.get("steps") and samples and rows:
        return -(-samples // rows)
    return params.get("steps")


class LearningRateWarmup(LearningRateSchedule):
    """Raises the learning rate from initial_lr / size to initial_lr during the first epochs.

    initial_lr: the rate of the whole job, usually the rate of one process times the number of
        ranks.
    warmup_epochs: the number of epochs until the rate is initial_lr.
    momentum_correction, steps_per_epoch: as for LearningRateSchedule.
    verbose: 1 prints the rate after the warm-up.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            # The last batch of the last warm-up epoch is the first one with the full rate.
            epoch += 1.0 / (self.steps_per_epoch or 1)
            return (epoch * (size() - 1) / warmup_epochs + 1) / size()

        super().__init__(
            initial_lr,
            multiplier,
            start_epoch=0,
            end_epoch=warmup_epochs,  # type: ignore[arg-type]
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.verbose > 0 and self.end_epoch is not None and epoch == self.end_epoch - 1:
            print(f"\nEpoch {epoch + 1}: the learning rate has warmed up to {self._rate():g}.")


class BestModel:
    """A checkpoint whose path is set after it is created; ValueError if it is not set."""

    filepath: Any

    def on_train_begin(self, logs: Any = None) -> None:
        if self.filepath is None:
            raise ValueError("BestModelCheckpoint has no path yet; set its attribute filepath")
        super().on_train_begin(logs)  # type: ignore[misc]


def placeholder(save_weights_only: bool) -> str:
    """A path that the constructor of Keras accepts; the user sets the real path later."""
    return "best.weights.h5" if save_weights_only else "best.keras"
