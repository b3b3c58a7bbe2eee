# SPDX-License-Identifier: Apache-2.0
"""Puts our methods into the class of a user's optimizer.

The class of a distributed optimizer has one base, the user's class, and has our methods in its own
namespace. Libraries rely on this: they read the user's class as `type(optimizer).__bases__[0]`.
Programs also make such classes themselves by `type(name, (user_class,), dict(Sub.__dict__))`, where
Sub is a subclass of ours. So one function becomes a method of many classes and must not name any of
them. The zero-argument super() does name one; our methods call `users(self).step()` instead.
"""

from __future__ import annotations

from typing import Any

import torch

# A class that has our methods in its own namespace also has this attribute there.
MARK = "_hvd_distributed"


def users(optimizer: torch.optim.Optimizer) -> Any:
    """The optimizer with the methods of the user's class; our replacement for super()."""
    ours = [cls for cls in type(optimizer).__mro__ if MARK in vars(cls)]
    # The last one: a library may have derived its own class from the class of the optimizer.
    return super(ours[-1], optimizer)


class Flat(type):
    """The metaclass of our classes. It copies all inherited methods of ours into each subclass.

    So `dict(Sub.__dict__)` has all methods, even if Sub overrides only one.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        last = max(i for i, base in enumerate(cls.__mro__) if MARK in vars(base))
        for base in cls.__mro__[1 : last + 1]:
            for attribute, value in vars(base).items():
                if attribute not in vars(cls):
                    setattr(cls, attribute, value)


def _keep_scheduler(optimizer: torch.optim.Optimizer) -> None:
    """Replace the `step` that an earlier scheduler has set on the instance by a distributed one."""
    if optimizer.__dict__.pop("step", None) is None:
        return
    cls = type(optimizer)

    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer._opt_called = True
        optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1
        return cls.step(optimizer, *args, **kwargs)

    # Depending on the version of PyTorch, a scheduler looks for one of these two marks and one of
    # the two attributes above. Without them it warns that step() was not called.
    step._wrapped_by_lr_sched = step._with_counter = True
    optimizer.step = step


def wrap(optimizer: torch.optim.Optimizer, methods: type) -> None:
    """Replace the class of an optimizer by one with the methods of `methods`.

    Methods of an earlier call of `wrap` are removed.
    """
    base = type(optimizer)
    if hasattr(base, MARK):
        optimizer._hvd_unhook()
    while MARK in vars(base):
        base = base.__bases__[0]
    optimizer.__class__ = type(base.__name__, (base,), dict(vars(methods)))
    _keep_scheduler(optimizer)
