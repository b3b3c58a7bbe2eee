# SPDX-License-Identifier: Apache-2.0
"""The environment of ranks."""

from __future__ import annotations

import os
import re

# What means something on one host or to one shell only, and the secret, which travels otherwise.
_STAYS = re.compile(r"BASH_FUNC_.*|OLDPWD|.*CUDA_VISIBLE_DEVICES|_HOROVOD_SECRET_KEY")

# Who has started this process, by where it wrote rank and size.
_PLACES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def is_exportable(name: str) -> bool:
    """Whether a variable is one to hand on to ranks on other hosts."""
    return _STAYS.fullmatch(name) is None


def get_env_rank_and_size() -> tuple[int, int]:
    """Rank and size as a launcher has set them, before init; (0, 1) without one."""
    for rank_name, size_name in _PLACES:
        rank, size = os.environ.get(rank_name), os.environ.get(size_name)
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            missing, there = (rank_name, size_name) if rank is None else (size_name, rank_name)
            raise RuntimeError(f"{there} is set and {missing} is not; set both or none")
    return 0, 1
