# SPDX-License-Identifier: Apache-2.0
"""What modules raise that Horovod 0.28 had and this package has not."""

from __future__ import annotations


def gone(module: str, instead: str) -> ImportError:
    """For a module that stays away: what to use instead."""
    return ImportError(
        f"{module} is not there any more: {instead}. See docs/migrating.md", name=module
    )


def coming(module: str, instead: str) -> ImportError:
    """For a module that a later version brings: what to use until then."""
    return ImportError(f"{module} is not there yet: {instead}. See docs/migrating.md", name=module)
