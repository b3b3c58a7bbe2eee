# SPDX-License-Identifier: Apache-2.0
"""Models, optimizers and samplers that an elastic job goes on from.

How a value is saved, restored and shared depends on its type: the registry has a handler class for
some. Values of other types are plain objects, which travel by cloudpickle.
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
    """Keeps one value, by a copy of its state_dict; subclasses say how it is shared."""

    def __init__(self, value: Any) -> None:
        self.set_value(value)

    def set_value(self, value: Any) -> None:
        """Keep another value from now on."""
        self.value = value
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        # A copy again: optimizers go on working with the tensors that they are given.
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Rank 0's value on every rank, saved."""
        raise NotImplementedError

    def reset(self) -> None:
        """The job has started anew."""


class ModelStateHandler(StateHandler):
    def restore(self) -> None:
        self.value.load_state_dict(self._saved)  # which copies

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    def restore(self) -> None:
        forget_reductions(self.value)
        self.value.zero_grad()  # a reduction that has failed may have been half done
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
        self.value.reset()  # there may be other ranks


_Registry = list[tuple[type, type[StateHandler]]]

_registry: _Registry = [
    (ElasticSampler, SamplerStateHandler),
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (torch.optim.lr_scheduler.LRScheduler, SchedulerStateHandler),
    (torch.optim.lr_scheduler.ReduceLROnPlateau, SchedulerStateHandler),
]


def get_handler_registry() -> _Registry:
    """Types and their handlers; the first that fits a value is taken."""
    return _registry


def set_handler_registry(registry: _Registry) -> None:
    """Replace the registry, for states that are made from now on."""
    global _registry  # noqa: PLW0603
    _registry = registry


def _handler_of(value: Any) -> StateHandler | None:
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return None


class TorchState(ObjectState):
    """What a training goes on from: `TorchState(model, optimizer, sampler=sampler, epoch=0)`.

    All of it are attributes. A model, optimizer, scheduler or sampler that is assigned anew is
    saved at once, anything else with the next commit.
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
