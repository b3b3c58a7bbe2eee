# SPDX-License-Identifier: Apache-2.0
"""Lets Keras save the plain class name of an optimizer, so that models load without Horovod."""

from __future__ import annotations

import sys
from typing import Any

# Keras 2 keeps the public names of a class in these attributes of the class itself; it does not
# read them from base classes.
_API_NAMES = ("_keras_api_names", "_keras_api_names_v1")


def attributes_of(plain: type) -> dict[str, Any]:
    """The attributes that make Keras 2 save another class under the name of `plain`."""
    return {name: plain.__dict__[name] for name in _API_NAMES if name in plain.__dict__}


def save_as(cls: type, plain: type) -> None:
    """Make Keras save instances of `cls` as instances of `plain`."""
    for package in ("keras.src", "tf_keras.src"):
        _copy(_table(f"{package}.api_export", "REGISTERED_OBJS_TO_NAMES"), cls, _public(plain))
        # The names of classes with the decorator register_keras_serializable.
        registered = f"{package}.saving.object_registration"
        for table in ("GLOBAL_CUSTOM_NAMES", "_GLOBAL_CUSTOM_NAMES"):
            _copy(_table(registered, table), cls, [plain])


def _public(plain: type) -> list[type]:
    """The class and, for a class of Keras, its bases of the same name.

    The optimizer classes for one backend are derived from the public ones.
    """
    if not plain.__module__.startswith("keras."):
        return [plain]
    return [base for base in plain.__mro__ if base.__name__ == plain.__name__]


def _table(module: str, name: str) -> dict[type, str]:
    return getattr(sys.modules.get(module), name, None) or {}


def _copy(names: dict[type, str], cls: type, candidates: list[type]) -> None:
    for candidate in candidates:
        if candidate in names:
            names[cls] = names[candidate]
            return
