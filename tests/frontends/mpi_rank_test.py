# SPDX-License-Identifier: Apache-2.0
"""The rank process of mpirun on Spark, tested without Spark and mpirun."""

from __future__ import annotations

import pytest
from horovod.runner import rendezvous
from horovod.spark.task import mpi_rank


def test_a_rank_without_an_assignment_raises(monkeypatch):
    class Silent:
        def __init__(self, address, secret):
            assert (address, secret) == ("10.0.0.1:7000", "secret")

        def get(self, name):
            return False, None  # the answer after CONNECT_SECONDS

    monkeypatch.setattr(rendezvous, "RendezvousClient", Silent)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1")
    monkeypatch.setenv("HOROVOD_RENDEZVOUS", "10.0.0.1:7000")
    monkeypatch.setenv(rendezvous.SECRET, "secret")
    with pytest.raises(RuntimeError, match=r"rank 3 has waited for 60 seconds .* 10.0.0.1:7000"):
        mpi_rank.main()
