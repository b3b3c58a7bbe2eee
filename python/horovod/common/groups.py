# SPDX-License-Identifier: Apache-2.0
"""Groups of gradients that are reduced together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Callable, Union

from horovod.common.basics import Average
from horovod.common.util import split_list

Groups = Union[None, int, Sequence[Sequence[Any]]]


def check_reduction(
    op: int, gradient_predivide_factor: float, groups: Groups, key_of: Callable[[Any], Hashable]
) -> None:
    """Raise ValueError for arguments of an optimizer that exclude each other or have a wrong type.

    key_of: returns a key that is equal for the same variable only.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=hvd.Average")
    if groups is None:
        return
    if isinstance(groups, bool) or not isinstance(groups, (int, list, tuple)):
        raise ValueError("groups has to be a number, or a list of lists of variables")
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"groups cannot be negative: {groups}")
        return
    if any(not isinstance(group, (list, tuple)) for group in groups):
        raise ValueError("groups has to be a list of lists of variables")
    keys = [key_of(variable) for group in groups for variable in group]
    if len(set(keys)) < len(keys):
        raise ValueError("a variable is in groups twice; each may be in one group only")


def grouped(
    indices: list[int],
    groups: Groups,
    variables: Sequence[Any] | None,
    key_of: Callable[[Any], Hashable],
) -> list[list[int]]:
    """Divide indices of the list of gradients into groups, as `groups` asks for.

    groups: the number of groups, or lists of variables, or None. A variable in no list is a group
        of its own.
    variables: the variables of all gradients; needed if `groups` has lists.
    """
    if isinstance(groups, int):
        return split_list(indices, min(groups, len(indices)))
    index_of = {key_of(variables[i]): i for i in indices}  # type: ignore[index]
    explicit = [
        [index_of.pop(key) for key in map(key_of, group) if key in index_of]
        for group in groups or ()
    ]
    return [*(group for group in explicit if group), *([i] for i in index_of.values())]
