# SPDX-License-Identifier: Apache-2.0
"""Environment variables of ranks."""

from __future__ import annotations

import os
import re

# Variables with a meaning on one host or in one shell only, and the secret, which is sent in
# another way.
_STAYS = re.compile(r"BASH_FUNC_.*|OLDPWD|.*CUDA_VISIBLE_DEVICES|_HOROVOD_SECRET_KEY")

# Variables of rank and size, by launcher: horovodrun, Open MPI, PMI.
_PLACES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def is_exportable(name: str) -> bool:
    """Whether ranks on other hosts may receive this variable."""
    return _STAYS.fullmatch(name) is None


def get_env_rank_and_size() -> tuple[int, int]:
    """Rank and size from the environment, also before init; (0, 1) without a launcher.

    Raises RuntimeError if only one of the two is set.
    """
    for rank_name, size_name in _PLACES:
        rank, size = os.environ.get(rank_name), os.environ.get(size_name)
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            missing, there = (rank_name, size_name) if rank is None else (size_name, rank_name)
            raise RuntimeError(f"{there} is set and {missing} is not; set both or none")
    return 0, 1
