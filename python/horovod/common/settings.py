# SPDX-License-Identifier: Apache-2.0
"""Settings, the variables HOROVOD_*, as the native library parses them.

docs/settings.md lists them. A malformed value is a ValueError that names the variable.
"""

from __future__ import annotations

from collections.abc import Mapping

from horovod import _core


def flag(variable: str, environment: Mapping[str, str | None] | None = None) -> bool:
    """Whether a switch is on.

    environment: the variables of another process; None for those of this process.
    """
    text = None if environment is None else environment.get(variable) or ""
    return _core.setting(variable, text) == "1"


def text(variable: str) -> str:
    """The value as text; empty if it is not set and has no default."""
    return _core.setting(variable, None)


def items(variable: str) -> list[str]:
    """The items of a list."""
    value = text(variable)
    return value.split(",") if value else []


def number(variable: str) -> float:
    """The value of a numeric setting."""
    return float(text(variable))
