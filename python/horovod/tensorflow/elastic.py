# SPDX-License-Identifier: Apache-2.0
"""Training that continues after failures: `hvd.elastic.run` and the state that it restores.

state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)

@hvd.elastic.run
def train(state): ...

train(state)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from horovod._keras.elastic import KerasState, run
from horovod.common.basics import rank
from horovod.common.elastic import ObjectState
from horovod.tensorflow.functions import broadcast_object, broadcast_variables

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]


class TensorFlowState(ObjectState):
    """The variables and objects that training continues from.

    variables: by default all variables of the graph of the session.
    session: the session of TensorFlow 1 that has the variables, if there is one.
    kwargs: other objects; they become attributes.
    """

    def __init__(
        self, variables: Iterable[Any] | None = None, session: Any = None, **kwargs: Any
    ) -> None:
        if session is None and not tf.executing_eagerly():
            session = tf.compat.v1.get_default_session()
        self.session = session
        self.variables = list(tf.compat.v1.global_variables() if variables is None else variables)
        self._broadcast: Any = None
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)
        self.save()

    def save(self) -> None:
        self._values = self._read()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self.variables, self._values):
            if self.session is None:
                variable.assign(value)
            else:
                variable.load(value, self.session)
        super().restore()

    def sync(self) -> None:
        if self.session is None:
            broadcast_variables(self.variables, root_rank=0)
        else:
            if self._broadcast is None:
                self._broadcast = broadcast_variables(self.variables, root_rank=0)
            self.session.run(self._broadcast)
        self._values = self._read()
        super().sync()

    def _read(self) -> list[Any]:
        if self.session is not None:
            return self.session.run(self.variables)
        return [variable.numpy() for variable in self.variables]


class TensorFlowKerasState(KerasState):
    """A model of Keras, its optimizer, and objects that training continues from.

    optimizer: by default the optimizer of the model.
    backend: ignored.
    kwargs: other objects; they become attributes.
    """

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(model, optimizer, **kwargs)
