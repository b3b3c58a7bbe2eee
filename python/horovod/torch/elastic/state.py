# SPDX-License-Identifier: Apache-2.0
"""Models, optimizers and samplers that an elastic job restores after a failure.

The registry maps types to handler classes, which save, restore and broadcast values of that type.
Values of other types are plain objects, which cloudpickle serializes.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from horovod.common import basics
from horovod.common.elastic import ObjectState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.torch.optimizer import forget_reductions

__all__ = [
    "ModelStateHandler",
    "OptimizerStateHandler",
    "SamplerStateHandler",
    "SchedulerStateHandler",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "set_handler_registry",
]


class StateHandler:
    """Keeps one value and a copy of its state_dict. Subclasses implement `sync`."""

    def __init__(self, value: Any) -> None:
        self.set_value(value)

    def set_value(self, value: Any) -> None:
        """Replace the value and save it."""
        self.value = value
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        # A copy again: an optimizer keeps using the tensors that it is given.
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Copy the value of rank 0 to every rank and save it."""
        raise NotImplementedError

    def reset(self) -> None:
        """Called after the job has restarted."""


class ModelStateHandler(StateHandler):
    def restore(self) -> None:
        self.value.load_state_dict(self._saved)  # a module copies the tensors

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    def restore(self) -> None:
        forget_reductions(self.value)
        self.value.zero_grad()  # a failed reduction may have written a part of the gradients
        super().restore()

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()

    def reset(self) -> None:
        forget_reductions(self.value)


class SchedulerStateHandler(StateHandler):
    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()


class SamplerStateHandler(SchedulerStateHandler):
    def reset(self) -> None:
        self.value.reset()  # the number of ranks may have changed


_Registry = list[tuple[type, type[StateHandler]]]

_registry: _Registry = [
    (ElasticSampler, SamplerStateHandler),
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (torch.optim.lr_scheduler.LRScheduler, SchedulerStateHandler),
    (torch.optim.lr_scheduler.ReduceLROnPlateau, SchedulerStateHandler),
]


def get_handler_registry() -> _Registry:
    """The pairs of type and handler class; the first type that a value is an instance of wins."""
    return _registry


def set_handler_registry(registry: _Registry) -> None:
    """Replace the registry for states that are created later."""
    global _registry  # noqa: PLW0603
    _registry = registry


def _handler_of(value: Any) -> StateHandler | None:
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return None


class TorchState(ObjectState):
    """The state that training continues from: `TorchState(model, optimizer, sampler=s, epoch=0)`.

    All arguments become attributes. If the program assigns another model, optimizer, scheduler or
    sampler, it is saved at once; any other value is saved by the next commit.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        self._handlers: dict[str, StateHandler] = {}
        super().__init__(broadcast_object, basics.rank, model=model, optimizer=optimizer, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_handlers", {}):
            self._handlers[name].set_value(value)
        elif name in self.__dict__.get("_saved_state", {}):
            handler = _handler_of(value)
            if handler is not None:
                self._handlers[name] = handler
                del self._saved_state[name]
        super().__setattr__(name, value)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        for handler in self._handlers.values():
            handler.reset()
