# SPDX-License-Identifier: Apache-2.0
"""Settings, the variables HOROVOD_*, as the native library reads them: there is no other parser.

docs/settings.md lists them. A malformed value is a ValueError that names the variable.
"""

from __future__ import annotations

from collections.abc import Mapping

from horovod import _core


def flag(variable: str, environment: Mapping[str, str | None] | None = None) -> bool:
    """Whether a switch is on, here or in an environment that is meant for another process."""
    text = None if environment is None else environment.get(variable) or ""
    return _core.setting(variable, text) == "1"


def text(variable: str) -> str:
    """Empty if it is not set and has no default."""
    return _core.setting(variable, None)


def items(variable: str) -> list[str]:
    """Of a list."""
    value = text(variable)
    return value.split(",") if value else []


def number(variable: str) -> float:
    return float(text(variable))
