# SPDX-License-Identifier: Apache-2.0
"""The settings of a distributed optimizer of Keras."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from horovod.common.basics import Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set


@dataclasses.dataclass(frozen=True)
class Settings:
    """How gradients are reduced: the arguments of DistributedOptimizer with the same names.

    Raises ValueError for values that do not fit together.
    """

    compression: Any
    name: str | None = None
    device_dense: str = ""
    device_sparse: str = ""
    sparse_as_dense: bool = False
    gradient_predivide_factor: float = 1.0
    op: int = Average
    backward_passes_per_step: int = 1
    average_aggregated_gradients: bool = False
    groups: Any = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True
    local_layers: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.op not in (Average, Sum):
            raise ValueError("a DistributedOptimizer of Keras takes op=hvd.Average or hvd.Sum only")
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise ValueError("gradient_predivide_factor needs op=hvd.Average")
        if self.backward_passes_per_step <= 0:
            raise ValueError(
                f"backward_passes_per_step has to be at least 1: {self.backward_passes_per_step}"
            )
        for layer in self.local_layers:
            if not hasattr(layer, "trainable_weights"):
                raise ValueError(f"local_layers contains {layer!r}, which is not a layer of Keras")

    def is_distributed(self) -> bool:
        """Whether there are other ranks to reduce with."""
        return bool(self.process_set.included()) and self.process_set.size() != 1

    @staticmethod
    def name_of(optimizer: str | None, number: int) -> str:
        """The name of a reduction; without the name of an optimizer, a generic name."""
        return f"grad_{number}" if optimizer is None else f"{optimizer}.{number}"

    def set_apart(
        self, gradients: Sequence[Any], variables: Sequence[Any], local_variables: Sequence[Any]
    ) -> tuple[list[Any], dict[int, int]]:
        """Separate gradients of local variables from those that are reduced.

        Returns the gradients, with those of local variables scaled, and a dict: index of a shared
        gradient -> its number, which names the reduction. A gradient that is None is counted. A
        gradient of a local variable is not counted, because the number of local variables may
        differ between ranks. For frameworks whose variables are compared by identity.
        """
        results = list(gradients)
        local = {id(variable) for variable in local_variables}
        shared = {}
        number = 0
        for i, gradient in enumerate(gradients):
            if id(variables[i]) in local:
                if gradient is not None and self.scale_local_gradients:
                    results[i] = gradient / self.process_set.size()
                continue
            if gradient is not None:
                shared[i] = number
            number += 1
        return results, shared
