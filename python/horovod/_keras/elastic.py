# SPDX-License-Identifier: Apache-2.0
"""Training with model.fit that continues after a failure."""

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
    """Decorate `train(state, ...)` so that it continues from the last commit after a failure."""

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
    """Whether an error of TensorFlow reports a failure of the job, which a restart can repair.

    Other errors, such as FailedPreconditionError for ranks that disagree, would occur again.
    """
    names = {cls.__name__ for cls in type(error).__mro__}
    failed = {"UnknownError", "InternalError"}
    return "OpError" in names and bool(names & failed) and "Horovod" in str(error)


def _reset() -> None:
    basics.shutdown()
    basics.init()


class KerasState(ObjectState):
    """The state that training continues from: `KerasState(model, epoch=0, batch=0)`.

    model: a model that is built; ValueError otherwise.
    optimizer: by default the optimizer that the model is compiled with.
    kwargs: other objects; they become attributes.
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
        # Variables that the optimizer has created since the last commit are reset to zero.
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
        """Drop the passes of a step that has begun; ranks that have just joined have none."""
        optimizer = self.optimizer
        for candidate in (optimizer, getattr(optimizer, "inner_optimizer", None)):
            if isinstance(candidate, Distributed) and candidate._hvd.accumulator is not None:
                candidate._hvd.accumulator.forget()


def _build(optimizer: Any, model: Any) -> None:
    """Create all variables, so that a rank that has just joined has as many as the other ranks."""
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(model.trainable_variables)
    elif not getattr(optimizer, "built", getattr(optimizer, "_built", False)):
        optimizer.build(model.trainable_variables)


class CommitState:
    """Commits the state after every `batches_per_commit` batches and at the end of each epoch."""

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        # Ranks that have just joined and ranks that continue have to commit at the same batches.
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.state.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.state.commit()


class UpdateBatchState:
    """Sets state.batch to the last batch of the epoch.

    In an epoch that is resumed, it sets `params["steps"]` for other callbacks to the number of the
    remaining batches. It does not shorten the epoch itself: pass steps_per_epoch to fit.
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
    """Sets state.epoch to the number of completed epochs, including those before a failure."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.state.epoch = self.initial_epoch + epoch + 1
