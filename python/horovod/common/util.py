# SPDX-License-Identifier: Apache-2.0
"""Helpers that front ends share, and helpers that other libraries import from this module."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Callable, TypeVar

from horovod import _core
from horovod.common.basics import Average, Sum

T = TypeVar("T")

# A decorator that calls a function once per arguments. Modified copies of front ends use it.
_cache = functools.lru_cache(maxsize=None)

# The names of the front ends' modules.
EXTENSIONS = ["tensorflow", "torch", "mxnet"]


def reduce_op(op: int | None, average: bool | None) -> int:
    """The reduce operation of a call; `average` is its deprecated form.

    Warns of `average`. Raises ValueError if both are given.
    """
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("the op parameter supersedes average; pass only op")
    warnings.warn(
        "the parameter average is deprecated; pass op=hvd.Average or op=hvd.Sum",
        DeprecationWarning,
        stacklevel=3,
    )
    return Average if average else Sum


def groups_of(num_groups: int, groups: T) -> T | int:
    """The groups of a call; `num_groups` is the deprecated form of their number, and warns."""
    if not num_groups:
        return groups
    warnings.warn(
        "the parameter num_groups is deprecated; pass groups=", DeprecationWarning, stacklevel=3
    )
    return num_groups if groups is None else groups


def get_average_backwards_compatibility_fun(basics: Any) -> Callable[..., int]:
    return reduce_op


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def check_adasum(process_set_id: int | None) -> None:
    """Raise NotImplementedError unless the set has all ranks, and their number is a power of two.

    Adasum halves the ranks in each step.
    """
    if process_set_id != 0:
        raise NotImplementedError("Adasum works on the global process set only")
    if not num_rank_is_power_2(_core.size()):
        raise NotImplementedError(
            f"Adasum needs a number of ranks that is a power of two, not {_core.size()}"
        )


def split_list(items: Sequence[T], parts: int) -> list[list[T]]:
    """Divide a list into parts of almost equal length. The first parts are one item longer."""
    length, longer = divmod(len(items), parts)
    ends = [length * (i + 1) + min(i + 1, longer) for i in range(parts)]
    return [list(items[start:end]) for start, end in zip([0, *ends], ends)]


def is_iterable(value: Any) -> bool:
    try:
        iter(value)
    except TypeError:
        return False
    return True


@contextlib.contextmanager
def env(**variables: str | None) -> Iterator[None]:
    """A context with these environment variables. A value of None leaves a variable unchanged."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Compare versions of the form 1.2.3. Text after the three numbers is ignored.

    Raises ValueError if `target` does not have three numbers.
    """
    if len(target.split(".")) != 3:
        raise ValueError(f'the version to compare with has to be like "1.2.3", not "{target}"')

    def numbers(text: str) -> list[int]:
        parts = ["".join(c for c in part if c.isdigit()) for part in text.split("+")[0].split(".")]
        return [int(part or 0) for part in [*parts, "0", "0"][:3]]

    return numbers(ver) >= numbers(target)


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Does nothing: one build serves every version of a framework."""


def get_ext_suffix() -> str:
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    folder = os.path.dirname(pkg_path)
    return os.path.join(folder, *args[:-1], args[-1] + get_ext_suffix())


def check_extension(ext_name: str, env_var: str, pkg_path: str, *args: str) -> None:
    """Does nothing: the package has one native module, which is always installed."""


def extension_available(name: str, verbose: bool = False) -> bool:
    """Whether a front end can be used: this package has it, and its framework is installed.

    verbose: prints the answer.
    """
    missing = [
        module for module in (f"horovod.{name}", name) if importlib.util.find_spec(module) is None
    ]
    if verbose and missing:
        print(f"horovod.{name} cannot be used: there is no {' and no '.join(missing)}")
    elif verbose:
        print(f"horovod.{name} can be used: {name} is installed")
    return not missing


def gpu_available(name: str) -> bool:
    """False: there is no GPU support yet."""
    return False


def mpi_built(verbose: bool = False) -> bool:
    return _core.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    return _core.gloo_built()


def nccl_built(verbose: bool = False) -> bool:
    return bool(_core.nccl_built())


def ddl_built(verbose: bool = False) -> bool:
    return _core.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    return _core.ccl_built()
