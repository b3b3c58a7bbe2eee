# SPDX-License-Identifier: Apache-2.0
"""Start and end of a job, and the rank of this process in it. The same in every front end."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable
from typing import Any

from horovod import _core
from horovod._core import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    nccl_built,
    rank,
    rocm_built,
    size,
)
from horovod.common import mpi
from horovod.common import process_sets as sets
from horovod.common.exceptions import ErrorCode, StartError

Average = _core.AVERAGE
Sum = _core.SUM
Adasum = _core.ADASUM
Min = _core.MIN
Max = _core.MAX
Product = _core.PRODUCT

__all__ = [
    "Adasum",
    "Average",
    "HorovodBasics",
    "Max",
    "Min",
    "Product",
    "Sum",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


def _ranks_of(comm: Any) -> list[int]:
    """The ranks that take part; empty for all. ValueError if `comm` has another type."""
    if comm is None:
        return []
    if mpi.is_communicator(comm):
        return mpi.world_ranks(comm)
    try:
        ranks = list(comm)
    except TypeError:
        ranks = [None]
    if not sets.are_ranks(ranks):
        raise ValueError(
            f"comm has to be a list of ranks or a communicator of mpi4py, not {comm!r}"
        )
    return ranks


def init(comm: Any = None, process_sets: str | Iterable[sets.ProcessSet] | None = None) -> None:
    """Join the job that the launcher started. Without a launcher, the job has this process only.

    comm: the ranks that take part, all by default. A list of ranks, the same on each of them, or a
        communicator of mpi4py in a job that mpirun started. Other ranks do not call init, or form a
        job of their own with another list.
    process_sets: process sets to register now, or "dynamic" to allow add_process_set later.

    Does nothing while a job is running. An exception of a signal handler, such as
    KeyboardInterrupt, ends the wait. There is no job then, and init may be called again. The other
    ranks, which wait for this rank, fail.

    Raises ValueError for wrong arguments, and StartError (a HorovodInternalError and ValueError) if
    the job cannot start.
    """
    ranks = _ranks_of(comm)
    given: list[sets.ProcessSet] = []
    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise ValueError(
                f'process_sets has to be a list of ProcessSet or "dynamic", not "{process_sets}"'
            )
        os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    elif process_sets is not None:
        given = sets.check_process_sets(process_sets)
    if any(process_set.mpi_comm is not None for process_set in given) and not is_initialized():
        set_ranks = mpi.agree_on_sets(comm, ranks, given)
    else:
        set_ranks = [process_set.ranks for process_set in given]
    # Registered before the start, because a signal handler may raise an exception as soon as the
    # job exists.
    atexit.unregister(shutdown)
    atexit.register(shutdown)
    try:
        _core.init(ranks, set_ranks)
    except StartError as error:
        if error.code == ErrorCode.ALREADY_EXISTS:
            raise ValueError(f"a process set for init is a duplicate: {error}") from None
        raise
    sets._init_process_sets(given)
    if mpi_enabled() and not ranks:
        mpi.start_with_job()


def shutdown() -> None:
    """End the job on all ranks. Operations that are not done fail. init may be called again.

    Ctrl-C ends the wait for the other ranks; the shutdown continues in the background.
    """
    atexit.unregister(shutdown)
    try:
        _core.shutdown()
    finally:
        sets.forget_process_sets()


def mpi_threads_supported() -> bool:
    """Whether MPI allows calls by several threads at once.

    Raises ValueError in a job that no MPI launcher started.
    """
    rank()
    if not mpi_enabled():
        raise ValueError("MPI is not enabled in this job: it was not started by an MPI launcher")
    return mpi.threads_supported()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Start writing a timeline to this file.

    Needs HOROVOD_TIMELINE=DYNAMIC (or a file) at init, else it raises ValueError.
    mark_cycles: also marks the cycles of the engine.
    """
    _core.start_timeline(os.fspath(file_path), bool(mark_cycles))


def stop_timeline() -> None:
    """Stop the timeline, if there is one. Its file is complete on return."""
    _core.stop_timeline()


class HorovodBasics:
    """The functions of this module as methods, for libraries that use an object of this class."""

    def __init__(self, pkg_path: str | None = None, *ext_path: str) -> None:
        self.Average, self.Sum, self.Adasum = Average, Sum, Adasum
        self.Min, self.Max, self.Product = Min, Max, Product

    init = staticmethod(init)
    shutdown = staticmethod(shutdown)
    is_initialized = staticmethod(is_initialized)
    start_timeline = staticmethod(start_timeline)
    stop_timeline = staticmethod(stop_timeline)
    rank = staticmethod(rank)
    size = staticmethod(size)
    local_rank = staticmethod(local_rank)
    local_size = staticmethod(local_size)
    cross_rank = staticmethod(cross_rank)
    cross_size = staticmethod(cross_size)
    is_homogeneous = staticmethod(is_homogeneous)
    mpi_threads_supported = staticmethod(mpi_threads_supported)
    mpi_enabled = staticmethod(mpi_enabled)
    mpi_built = staticmethod(mpi_built)
    gloo_enabled = staticmethod(gloo_enabled)
    gloo_built = staticmethod(gloo_built)
    nccl_built = staticmethod(nccl_built)
    ddl_built = staticmethod(ddl_built)
    ccl_built = staticmethod(ccl_built)
    cuda_built = staticmethod(cuda_built)
    rocm_built = staticmethod(rocm_built)
