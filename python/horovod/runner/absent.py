# SPDX-License-Identifier: Apache-2.0
"""Errors of modules that Horovod 0.28 has and this package does not have."""

from __future__ import annotations


def gone(module: str, instead: str) -> ImportError:
    """For a removed module. instead: what to use in its place."""
    return ImportError(
        f"{module} is no longer available: {instead}. See docs/migrating.md", name=module
    )


def coming(module: str, instead: str) -> ImportError:
    """For a module of a later version. instead: what to use until then."""
    return ImportError(
        f"{module} is not available yet: {instead}. See docs/migrating.md", name=module
    )
