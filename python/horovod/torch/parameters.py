# SPDX-License-Identifier: Apache-2.0
"""The parameters of an optimizer, and the names under which their gradients are reduced."""

from __future__ import annotations

from collections.abc import Iterable

import torch

Tensor = torch.Tensor


def trained(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """The parameters that require gradients."""
    groups = optimizer.param_groups
    return [p for group in groups for p in group["params"] if p.requires_grad]


def name_of_place(group: int, index: int) -> str:
    """The name of a parameter that the user gives no name to: its place in param_groups."""
    return f"allreduce.noname.{group}.{index}"


def name_parameters(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, Tensor]] | None
) -> dict[Tensor, str]:
    """Map each parameter to the name of its reduction, which has to be the same on all ranks.

    Raises ValueError if the names are not unique or do not cover all parameters of the optimizer.
    """
    by_place = {
        parameter: name_of_place(number, index)
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
