# SPDX-License-Identifier: Apache-2.0
"""Our methods in the class of a user's optimizer.

The class of a distributed optimizer has one base, the user's class, and our methods in its own
namespace: libraries take `type(optimizer).__bases__[0]` for the user's class. Programs also make
such classes themselves, `type(name, (user_class,), dict(Sub.__dict__))`, where Sub is a subclass of
ours. One function thus becomes a method of many classes, and must not name one of them, as the
zero-argument super() does: `users(self).step()` takes its place.
"""

from __future__ import annotations

from typing import Any

import torch

# The attribute that a class has in its own namespace if it has our methods there.
MARK = "_hvd_distributed"


def users(optimizer: torch.optim.Optimizer) -> Any:
    """The optimizer with the methods of the user's class: what super() is elsewhere."""
    ours = [cls for cls in type(optimizer).__mro__ if MARK in vars(cls)]
    # The last one: a library may have derived a class of its own from that of the optimizer.
    return super(ours[-1], optimizer)


class Flat(type):
    """The metaclass of our classes: a subclass repeats in its namespace what it inherits from them.

    `dict(Sub.__dict__)` then has all methods, also where Sub overrides only one.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        last = max(i for i, base in enumerate(cls.__mro__) if MARK in vars(base))
        for base in cls.__mro__[1 : last + 1]:
            for attribute, value in vars(base).items():
                if attribute not in vars(cls):
                    setattr(cls, attribute, value)


def _keep_scheduler(optimizer: torch.optim.Optimizer) -> None:
    """Replace the `step` of a scheduler that was made before, which is not distributed."""
    if optimizer.__dict__.pop("step", None) is None:
        return
    cls = type(optimizer)

    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer._opt_called = True
        optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1
        return cls.step(optimizer, *args, **kwargs)

    # Schedulers of different versions of PyTorch look for these two and for the two counts. Without
    # them they warn that step() was not called.
    step._wrapped_by_lr_sched = step._with_counter = True
    optimizer.step = step


def wrap(optimizer: torch.optim.Optimizer, methods: type) -> None:
    """Give an optimizer a class that has the methods of `methods`, instead of those it may have."""
    base = type(optimizer)
    if hasattr(base, MARK):
        optimizer._hvd_unhook()
    while MARK in vars(base):
        base = base.__bases__[0]
    optimizer.__class__ = type(base.__name__, (base,), dict(vars(methods)))
    _keep_scheduler(optimizer)
