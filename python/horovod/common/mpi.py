# SPDX-License-Identifier: Apache-2.0
"""Support for programs that use MPI through mpi4py. This module does not import mpi4py."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Sequence
from typing import Any

from horovod.common import settings

# For each rank and each process set: the ranks of the set in MPI.COMM_WORLD. None if the set is not
# from a communicator, or if the rank is not in the communicator.
_Members = list[list["list[int] | None"]]


def is_communicator(value: Any) -> bool:
    return hasattr(value, "Get_group") and hasattr(value, "Get_rank")


def _module_of(comm: Any) -> Any:
    """The module mpi4py.MPI. The class of `comm` may be derived from a class of it."""
    for kind in type(comm).__mro__:
        module = sys.modules.get(kind.__module__)
        if hasattr(module, "COMM_WORLD"):
            return module
    raise ValueError(f"{comm!r} is not a communicator of mpi4py")


def world_ranks(comm: Any) -> list[int]:
    """The ranks of a communicator, in its order, as ranks of MPI.COMM_WORLD (all started ranks)."""
    if not comm:
        raise ValueError(
            "init was given MPI.COMM_NULL: this rank is not in the communicator; ranks that are "
            "not in it do not call init"
        )
    mpi = _module_of(comm)
    _start(mpi)
    started = int(settings.text("HOROVOD_SIZE"))
    in_world = mpi.COMM_WORLD.Get_size()
    if started not in (1, in_world):
        raise ValueError(
            f"MPI.COMM_WORLD has {in_world} ranks, but {started} were started: the launcher is not "
            "an MPI launcher; start the program with mpirun or horovodrun --mpi, or pass a list of "
            "ranks"
        )
    group, world = comm.Get_group(), mpi.COMM_WORLD.Get_group()
    try:
        # Called through the class, it has the same arguments in mpi4py 3 and 4.
        ranks = mpi.Group.Translate_ranks(group, list(range(group.Get_size())), world)
    finally:
        group.Free()
        world.Free()
    if mpi.UNDEFINED in ranks:
        raise ValueError("the communicator has processes that are not in MPI.COMM_WORLD")
    return list(ranks)


def agree_on_sets(comm: Any, ranks: list[int], process_sets: Sequence[Any]) -> list[list[int]]:
    """Return the ranks of all process sets to register, some of which are from communicators.

    A collective call of MPI: all ranks of the job make it.

    comm, ranks: the argument of `init`, and the ranks that it means; empty for all.
    process_sets: each set receives its ranks in the job.

    The communicators of a Split differ between ranks, and only its members know a communicator. So
    one process set here can become several sets to register, one for each communicator.
    """
    mpi = _module_of(next(each.mpi_comm for each in process_sets if each.mpi_comm is not None))
    own = [world_ranks(each.mpi_comm) if each.mpi_comm else None for each in process_sets]
    job = ranks or list(range(mpi.COMM_WORLD.Get_size()))
    gathered: _Members = _among(mpi, comm, job, lambda job_comm: job_comm.allgather(own))
    if len({len(members) for members in gathered}) > 1:
        raise ValueError("the ranks passed different numbers of process sets to init")
    found = []
    for place, process_set in enumerate(process_sets):
        if process_set.mpi_comm is None:
            found.append(process_set.ranks)
            continue
        there = sorted(
            {tuple(members[place]) for members in gathered if members[place] is not None}
        )
        sets = [_in_job(world, job) for world in there]
        found.extend(sets)
        mine = own[place]
        if mine is not None:
            process_set.ranks = _in_job(mine, job)
        else:
            process_set.ranks = sets[0] if len(sets) == 1 else None
    return found


def _among(mpi: Any, comm: Any, ranks: list[int], call: Any) -> Any:
    """Make a call with a communicator of these ranks."""
    if is_communicator(comm):
        return call(comm)
    if comm is None:
        return call(mpi.COMM_WORLD)
    world = mpi.COMM_WORLD.Get_group()
    group = world.Incl(ranks)
    some = mpi.COMM_WORLD.Create_group(group)
    try:
        return call(some)
    finally:
        for made in (some, group, world):
            made.Free()


def _in_job(world: Sequence[int], job: list[int]) -> list[int]:
    outside = [rank for rank in world if rank not in job]
    if outside:
        raise ValueError(
            f"a process set has ranks {outside} of MPI.COMM_WORLD, which are not in the job of "
            f"ranks {job}"
        )
    return sorted(job.index(rank) for rank in world)


# Start and threads ------------------------------------------------------------------------------


def threads_supported() -> bool:
    """Whether MPI allows calls by several threads at once. The library itself makes no calls."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return True
    return mpi.Query_thread() >= mpi.THREAD_MULTIPLE


class _Starter:
    """An import hook that makes mpi4py start MPI on import, for any value of mpi4py.rc."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name != "mpi4py.MPI":
            return
        rc = sys.modules["mpi4py"].rc
        rc.initialize, rc.finalize = True, None  # None: mpi4py also finalizes it at exit


def start_with_job() -> None:
    """Start MPI as Horovod 0.28 did: after init of all ranks of an MPI launcher.

    The documentation of 0.28 tells programs to set mpi4py.rc.initialize to False, so that mpi4py
    does not start MPI again. Here MPI starts when such a program imports mpi4py.MPI, or now if the
    module is imported already.
    """
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None:
        if _Starter not in sys.meta_path:
            sys.meta_path.insert(0, _Starter)
    else:
        _start(mpi)


def _start(mpi: Any) -> None:
    if not mpi.Is_initialized():
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
        atexit.register(_finalize, mpi)


def _finalize(mpi: Any) -> None:
    if not mpi.Is_finalized():
        mpi.Finalize()
