# SPDX-License-Identifier: Apache-2.0
"""Programs that use MPI through mpi4py, under a real mpirun, without a framework."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
import types

import pytest
from horovod.common import basics, mpi, process_sets

RANKS = 3
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
PRELUDE = """
import os, signal, sys, time
from horovod import _core
from horovod.common import basics
from horovod.common.process_sets import ProcessSet

def total(value, process_set=0):
    data = bytearray([value])
    place = _core.address_of(data)
    view = (place, place, _core.UINT8, (1,))
    _core.wait(_core.submit(
        _core.ALLREDUCE, "op", "x", view, process_set=process_set, keep=data, will_wait=True,
    ))
    return data[0]

def raises(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
"""


def run(script: str) -> None:
    """Run a script on all ranks. All of them and mpirun must succeed."""
    clean = {name: value for name, value in os.environ.items() if "HOROVOD" not in name}
    done = "\nsys.stdout.write('done\\n')\n"
    ended = subprocess.run(
        [*MPIRUN, "-n", str(RANKS), sys.executable, "-c", PRELUDE + textwrap.dedent(script) + done],
        env=clean,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "done\n" * RANKS


needs_mpi = pytest.mark.skipif(
    shutil.which("mpirun") is None or importlib.util.find_spec("mpi4py") is None,
    reason="there is no mpirun, or no mpi4py",
)


@needs_mpi
def test_mpi_starts_after_init_and_ends_before_shutdown():
    """The recipe of Horovod 0.28's documentation."""
    run(
        """
        basics.init()
        assert basics.mpi_enabled()
        assert basics.mpi_threads_supported() is True
        import mpi4py.rc
        mpi4py.rc.initialize = False
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        assert basics.size() == world.Get_size() == 3
        assert basics.rank() == world.Get_rank()
        assert basics.mpi_threads_supported() is (MPI.Query_thread() == MPI.THREAD_MULTIPLE)
        for _ in range(20):
            assert total(1) == world.allreduce(1) == 3
        MPI.Finalize()
        assert total(2) == 6
        basics.shutdown()
        """
    )


@needs_mpi
def test_mpi_starts_after_a_second_init_and_ends_with_the_process():
    """A signal interrupts the first init while PMIx waits for rank 0. Later each rank forks."""
    run(
        """
        rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        def give_up(number, frame):
            raise KeyboardInterrupt
        if rank == 0:
            time.sleep(1.5)
        else:
            signal.signal(signal.SIGALRM, give_up)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            start = time.monotonic()
            raises(KeyboardInterrupt, "", basics.init)
            assert time.monotonic() - start < 1.2
        basics.init()
        child = os.fork()
        if child == 0:
            raises(ValueError, "fork before hvd.init()", basics.init)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        basics.shutdown()
        basics.init()
        from mpi4py import MPI
        assert basics.size() == MPI.COMM_WORLD.Get_size()
        assert total(1) == MPI.COMM_WORLD.allreduce(1) == 3
        """
    )


@needs_mpi
def test_communicators_are_jobs_and_process_sets():
    run(
        """
        import mpi4py
        mpi4py.rc.initialize = False
        from mpi4py import MPI
        world = MPI.COMM_WORLD

        # MPI is not started yet: init starts it.
        basics.init(comm=world)
        rank = basics.rank()
        assert (rank, basics.size()) == (world.Get_rank(), 3)
        basics.shutdown()

        # Sets that only their members know, and one that all ranks know.
        parity = ProcessSet(world.Split(rank % 2, rank))
        first = ProcessSet(world.Split(0 if rank < 2 else MPI.UNDEFINED, rank))
        assert parity.ranks is None and parity.included() is None
        basics.init(world, [parity, ProcessSet([1, 2]), first])
        assert parity.ranks == ([1] if rank == 1 else [0, 2])
        assert parity.size() == len(parity.ranks)
        assert total(1, parity.process_set_id) == len(parity.ranks)
        assert first.ranks == [0, 1] and first.included() == (rank < 2)
        if first.included():
            assert total(1, first.process_set_id) == 2
        assert len(_core.process_sets()) == 5
        raises(NotImplementedError, "list of ranks", basics.sets.add_process_set, world)
        basics.shutdown()

        # Some ranks in another order, then other ranks, then all ranks.
        for members in ([2, 0], [1, 2], [0, 1, 2]):
            place = members.index(rank) if rank in members else None
            color = MPI.UNDEFINED if place is None else 0
            some = world.Split(color, place or 0)
            if some == MPI.COMM_NULL:
                raises(ValueError, "COMM_NULL", basics.init, some)
                continue
            sets = [ProcessSet(some.Split(place == 0, place))]
            basics.init(some, sets)
            assert (basics.rank(), basics.size()) == (place, len(members))
            assert total(1) == some.allreduce(1) == len(members)
            assert sets[0].ranks == ([0] if place == 0 else list(range(1, len(members))))
            basics.shutdown()

        # A list of ranks, with a communicator that has more ranks.
        if rank < 2:
            raises(ValueError, "ranks [2]", basics.init, [0, 1], [ProcessSet(world)])
            basics.init([0, 1], [ProcessSet(MPI.COMM_SELF)])
            assert total(1) == 2
        """
    )


# Without MPI ------------------------------------------------------------------------------------


def test_what_is_no_communicator_is_refused_with_what_is_accepted(monkeypatch):
    for wrong in (5, 2.5, [0.5], "01"):
        with pytest.raises(ValueError, match="a list of ranks or a communicator of mpi4py"):
            basics.init(comm=wrong)
    with pytest.raises(ValueError, match="a list of ranks or a communicator of mpi4py"):
        process_sets.ProcessSet(5)


def test_a_world_of_mpi_that_is_not_the_job_is_refused(monkeypatch):
    """mpi4py without mpirun: each rank of another launcher has its own COMM_WORLD of size 1."""

    class Comm:
        __module__ = "mpi_of_one"
        Get_group = None

        @staticmethod
        def Get_rank():  # noqa: N802
            return 0

        @staticmethod
        def Get_size():  # noqa: N802
            return 1

    world = types.ModuleType("mpi_of_one")
    world.COMM_WORLD = Comm()
    world.Is_initialized = lambda: True
    monkeypatch.setitem(sys.modules, "mpi_of_one", world)
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    assert mpi.is_communicator(world.COMM_WORLD)
    with pytest.raises(ValueError, match=r"has 1 ranks, but 2 were started.*horovodrun --mpi"):
        basics.init(comm=world.COMM_WORLD)
