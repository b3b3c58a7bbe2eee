# SPDX-License-Identifier: Apache-2.0
"""What DistributedOptimizer is told about parameters: their names and their groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Union

import torch

from horovod.common.basics import Average
from horovod.common.process_sets import ProcessSet
from horovod.common.util import split_list
from horovod.torch.functions import broadcast_object

Tensor = torch.Tensor
Groups = Union[int, Sequence[Sequence[Tensor]], None]


class Group:
    """Parameters whose gradients are reduced as one operation."""

    def __init__(self, name: str, parameters: list[Tensor]) -> None:
        self.name, self.parameters = name, parameters


def trained(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """The parameters that get gradients."""
    groups = optimizer.param_groups
    return [p for group in groups for p in group["params"] if p.requires_grad]


def name_parameters(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, Tensor]] | None
) -> dict[Tensor, str]:
    """The names under which gradients are reduced, the same on all ranks."""
    by_place = {
        parameter: f"allreduce.noname.{number}.{index}"
        for number, group in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(group["params"])
    }
    given = None if named_parameters is None else list(named_parameters)
    if not given:
        return by_place
    if any(not isinstance(pair, tuple) for pair in given):
        raise ValueError(
            "named_parameters has to be a sequence of tuples (name, parameter), as "
            "model.named_parameters() gives it"
        )
    seen: set[str] = set()
    twice = {name for name, _ in given if name in seen or seen.add(name)}
    if twice:
        raise ValueError(f"parameter names are not unique: {', '.join(sorted(twice))}")
    names = {parameter: name for name, parameter in given}
    unnamed = [place for parameter, place in by_place.items() if parameter not in names]
    if unnamed:
        raise ValueError(
            f"named_parameters names {len(given)} parameters and leaves out {len(unnamed)} of the "
            "optimizer's; pass the names of all of them"
        )
    return names


def check_options(passes: int, op: int, predivide: float, groups: Groups) -> None:
    """Refuse what no optimizer can have."""
    if predivide != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=hvd.Average")
    check_passes(passes)
    _check_groups(groups)


def check_passes(passes: int) -> None:
    if passes <= 0:
        raise ValueError(f"backward_passes_per_step has to be positive, not {passes}")


def _check_groups(groups: Groups) -> None:
    if groups is None:
        return
    if isinstance(groups, bool) or not isinstance(groups, (int, list, tuple)):
        raise ValueError("groups has to be a number, or a list of lists of parameters")
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"groups cannot be negative: {groups}")
        return
    if any(not isinstance(group, (list, tuple)) for group in groups):
        raise ValueError("groups has to be a list of lists of parameters")
    seen: set[Tensor] = set()
    for parameter in (parameter for group in groups for parameter in group):
        if not isinstance(parameter, Tensor):
            raise ValueError(f"groups contains {parameter!r}, which is no parameter")
        if parameter in seen:
            raise ValueError("a parameter is in groups twice; each may be in one group only")
        seen.add(parameter)


def make_groups(
    names: dict[Tensor, str], groups: Groups, process_set: ProcessSet
) -> dict[Tensor, Group]:
    """The group of each parameter that is in one; `names` are those of trained parameters."""
    if not groups:
        return {}
    if isinstance(groups, int):
        # Ranks may list their parameters in different orders, and then cut them differently.
        by_name = {name: parameter for parameter, name in names.items()}
        order = broadcast_object(
            list(by_name), process_set.ranks[0], "optimizer_groups", process_set
        )
        parts = split_list([by_name[name] for name in order], min(groups, len(order)))
    else:
        parts = [[p for p in group if p in names] for group in groups]
    made = [Group(names[part[0]], part) for part in parts if part]
    return {parameter: group for group in made for parameter in group.parameters}
