# SPDX-License-Identifier: Apache-2.0
"""Training with model.fit that goes on after a failure."""

from __future__ import annotations

import functools
from typing import Any, Callable

from horovod._keras.functions import (
    broadcast_variables,
    optimizer_variables,
    read,
    shared_variables,
    sync_model,
    write,
)
from horovod._keras.optimizer import Distributed
from horovod.common import basics, objects
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate `train(state, ...)`, so that it goes on from the last commit after a failure."""

    @functools.wraps(func)
    def translated(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except Exception as error:
            if _is_of_horovod(error):
                raise HorovodInternalError(str(error)) from error
            raise

    return run_fn(translated, _reset)


def _is_of_horovod(error: Exception) -> bool:
    """Whether TensorFlow hands on that the job has failed, which a new start can cure.

    What it names otherwise, such as FailedPreconditionError for ranks that disagree, fails again.
    """
    names = {cls.__name__ for cls in type(error).__mro__}
    failed = {"UnknownError", "InternalError"}
    return "OpError" in names and bool(names & failed) and "Horovod" in str(error)


def _reset() -> None:
    basics.shutdown()
    basics.init()


class KerasState(ObjectState):
    """What a training goes on from: `KerasState(model, optimizer=None, epoch=0, batch=0)`.

    The weights of the model and the state of the optimizer, which is by default the one that it
    is compiled with, and whatever else is given by name.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        if not getattr(model, "built", True) or not model.weights:
            raise ValueError(
                "the model has no weights yet; build it first, with an input shape or a batch"
            )
        self.model = model
        self._optimizer = optimizer
        super().__init__(objects.broadcast_object, basics.rank, **kwargs)
        self._save_model()

    @property
    def optimizer(self) -> Any:
        given = self._optimizer
        return getattr(self.model, "optimizer", None) if given is None else given

    def save(self) -> None:
        self._save_model()
        super().save()

    def restore(self) -> None:
        sync_model(self.model)
        variables, known = self._variables(), len(self._values)
        write(variables[:known], self._values)
        # Variables that the optimizer has got since are as they were when they came.
        write(variables[known:], [0 * value for value in read(variables[known:])])
        self._forget_passes()
        super().restore()

    def sync(self) -> None:
        sync_model(self.model)
        if self.optimizer is not None:
            _build(self.optimizer, self.model)
        variables = shared_variables(self.model, self.optimizer, ())
        broadcast_variables(variables, 0, "KerasState")
        self._forget_passes()
        self._save_model()
        super().sync()

    def _variables(self) -> list[Any]:
        return [*self.model.weights, *optimizer_variables(self.optimizer)]

    def _save_model(self) -> None:
        sync_model(self.model)
        self._values = read(self._variables())

    def _forget_passes(self) -> None:
        """Ranks that have come since have none of a step that has begun."""
        optimizer = self.optimizer
        for candidate in (optimizer, getattr(optimizer, "inner_optimizer", None)):
            if isinstance(candidate, Distributed) and candidate._hvd.accumulator is not None:
                candidate._hvd.accumulator.forget()


def _build(optimizer: Any, model: Any) -> None:
    """All variables, so that a rank that has just come has as many as the others."""
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(model.trainable_variables)
    elif not getattr(optimizer, "built", getattr(optimizer, "_built", False)):
        optimizer.build(model.trainable_variables)


class CommitState:
    """Commits the state every so many batches, and at the end of each epoch."""

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        # Those of ranks that have gone on and of those that have come have to commit together.
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.state.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.state.commit()


class UpdateBatchState:
    """Keeps in state.batch which batch of the epoch was the last.

    To other callbacks `params["steps"]` says how much is left of an epoch that is resumed. How many
    batches it has is up to fit: pass steps_per_epoch.
    """

    params: dict[str, Any]

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.steps_per_epoch: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.params.get("steps"):
            if self.steps_per_epoch is None:
                self.steps_per_epoch = self.params["steps"]
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.state.batch = 0


class UpdateEpochState:
    """Keeps in state.epoch how many epochs have been done, with those before a failure."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.state.epoch = self.initial_epoch + epoch + 1
