# SPDX-License-Identifier: Apache-2.0
"""The options of DistributedOptimizer that concern the reduction of gradients."""

from __future__ import annotations

import dataclasses

from horovod.common.basics import Average
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch.buckets import Groups, check_groups
from horovod.torch.compression import Compression, Compressor


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments of DistributedOptimizer with the same names.

    Raises ValueError for combinations that no optimizer supports.
    """

    compression: type[Compressor] = Compression.none
    backward_passes_per_step: int = 1
    op: int = Average
    gradient_predivide_factor: float = 1.0
    groups: Groups = None
    sparse_as_dense: bool = False
    process_set: ProcessSet = global_process_set

    def __post_init__(self) -> None:
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise ValueError("gradient_predivide_factor needs op=hvd.Average")
        check_passes(self.backward_passes_per_step)
        check_groups(self.groups)


def check_passes(passes: int) -> None:
    """Raise ValueError for a backward_passes_per_step below 1."""
    if passes <= 0:
        raise ValueError(f"backward_passes_per_step has to be positive, not {passes}")
