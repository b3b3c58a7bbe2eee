"""Training that survives failures: `hvd.elastic.run`, with what it goes on from.

state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)

@hvd.elastic.run
def train(state): ...

train(state)
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Callable

import tensorflow as tf

from horovod.common.basics import init, rank, shutdown
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError
from horovod.tensorflow.functions import broadcast_object, broadcast_variables

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate `train(state, ...)`, so that it goes on from the last commit after a failure.

    No collective may come before it that not every rank takes part in, new ones included. Process
    sets have to be registered again after a new start, in a reset callback of the state.
    """
    return run_fn(_with_failures_told(func), _reset)


# A lost rank or a shutdown, the same in a function that XLA has compiled, ranks that disagree.
_FAILURES = (tf.errors.UnknownError, tf.errors.InternalError, tf.errors.FailedPreconditionError)


def _with_failures_told(func: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of ours that fails in TensorFlow's hands raises one of TensorFlow's errors."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except _FAILURES as error:
            if "Horovod" in str(error):
                raise HorovodInternalError(str(error)) from error
            raise

    return wrapper


def _reset() -> None:
    shutdown()
    init()


class _VariablesState(ObjectState):
    """Variables of TensorFlow, saved as arrays in this process, and objects."""

    def __init__(self, objects: dict[str, Any]) -> None:
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **objects)
        self._saved_values: list[Any] = []

    def _variables(self) -> list[Any]:
        raise NotImplementedError

    def _read(self) -> list[Any]:
        return [variable.numpy() for variable in self._variables()]

    def _write(self, values: list[Any]) -> None:
        for variable, value in zip(self._variables(), values):
            variable.assign(value)

    def _share(self) -> None:
        broadcast_variables(self._variables(), root_rank=0)

    def save(self) -> None:
        self._saved_values = self._read()
        super().save()

    def restore(self) -> None:
        self._write(self._saved_values)
        super().restore()

    def sync(self) -> None:
        self._share()
        self._saved_values = self._read()
        super().sync()


class TensorFlowState(_VariablesState):
    """Variables, by default all of the session's graph; and objects as attributes.

    session: of TensorFlow 1, if that is what runs the variables.
    """

    def __init__(
        self, variables: Iterable[Any] | None = None, session: Any = None, **kwargs: Any
    ) -> None:
        self.session = session or (
            None if tf.executing_eagerly() else tf.compat.v1.get_default_session()
        )
        if variables is None:
            variables = tf.compat.v1.global_variables()
        self.variables = list(variables)
        self._broadcast: Any = None
        super().__init__(kwargs)
        self.save()

    def _variables(self) -> list[Any]:
        return self.variables

    def _read(self) -> list[Any]:
        return super()._read() if self.session is None else self.session.run(self.variables)

    def _write(self, values: list[Any]) -> None:
        if self.session is None:
            super()._write(values)
            return
        for variable, value in zip(self.variables, values):
            variable.load(value, self.session)

    def _share(self) -> None:
        if self.session is None:
            super()._share()
            return
        if self._broadcast is None:
            self._broadcast = broadcast_variables(self.variables, root_rank=0)
        self.session.run(self._broadcast)


class TensorFlowKerasState(_VariablesState):
    """A model of Keras and its optimizer; and objects as attributes.

    optimizer: the model's own by default.
    backend: is not needed any more.
    """

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        if not getattr(model, "built", True) or not model.weights:
            raise ValueError(
                "the model has no weights yet; call it once on a batch, or model.build(shape), "
                "before it becomes part of a state"
            )
        self.model = model
        self.optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        super().__init__(kwargs)
        self.save()

    def _variables(self) -> list[Any]:
        variables = list(self.model.weights)
        if self.optimizer is not None:
            of_optimizer = self.optimizer.variables
            variables += of_optimizer() if callable(of_optimizer) else of_optimizer
        return variables
