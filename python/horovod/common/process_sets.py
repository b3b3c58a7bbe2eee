# SPDX-License-Identifier: Apache-2.0
"""Process sets: groups of ranks that run collectives among themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from horovod import _core
from horovod.common import mpi


def are_ranks(values: list[Any]) -> bool:
    """Whether all values are integers, without booleans."""
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


class ProcessSet:
    """The ranks that take part in a collective. In the set they are numbered in ascending order.

    ranks_or_comm: a list of ranks, or a communicator of mpi4py, whose ranks `init` fills in.
        ValueError for anything else.

    A set can be used after it was registered by `init` or `add_process_set`.
    """

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Any) -> None:
        if mpi.is_communicator(ranks_or_comm):
            self.mpi_comm = ranks_or_comm
            return
        try:
            ranks = list(ranks_or_comm)
        except TypeError:
            raise ValueError(
                "a process set is made from a list of ranks or a communicator of mpi4py, not "
                f"{ranks_or_comm!r}"
            ) from None
        if not are_ranks(ranks):
            raise ValueError(f"the ranks of a process set have to be integers: {ranks}")
        self.ranks = sorted(ranks)

    def _invalidate(self) -> None:
        self.process_set_id = None

    def size(self) -> int | None:
        """The number of ranks in the set; None while the set is not registered."""
        if self.process_set_id is None:
            return None
        return len(_core.process_set_ranks(self.process_set_id))

    def rank(self) -> int | None:
        """The rank of this process in the set; None while the set is not registered.

        Raises ValueError if this process is not in the set.
        """
        if self.process_set_id is None:
            return None
        ranks = _core.process_set_ranks(self.process_set_id)
        if _core.rank() not in ranks:
            raise ValueError(f"rank {_core.rank()} is not in the process set of ranks {ranks}")
        return ranks.index(_core.rank())

    def included(self) -> bool | None:
        """Whether this process is in the set; None while the ranks of the set are not known."""
        return None if self.ranks is None else _core.rank() in self.ranks

    def __str__(self) -> str:
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
            f"mpi_comm={self.mpi_comm})"
        )


class _GlobalProcessSet(ProcessSet):
    """The set of all ranks, which are known after init."""

    def __init__(self) -> None:
        self.process_set_id = 0


global_process_set: ProcessSet = _GlobalProcessSet()

# The registered sets without the global one.
_registered: list[ProcessSet] = []


def check_process_sets(process_sets: Iterable[Any]) -> list[ProcessSet]:
    """The argument process_sets of `init` as a list. ValueError if two sets have the same ranks."""
    sets = list(process_sets)
    seen: list[Any] = []
    for index, process_set in enumerate(sets):
        if not isinstance(process_set, ProcessSet):
            raise ValueError(f"process_sets[{index}] is {process_set!r}, not a ProcessSet")
        # The library finds communicators with equal ranks, once their ranks are known.
        made_from = process_set if process_set.mpi_comm is not None else process_set.ranks
        if process_set is global_process_set or made_from in seen:
            raise ValueError(f"process_sets[{index}], {process_set}, is a duplicate")
        seen.append(made_from)
    return sets


def _init_process_sets(process_sets: list[ProcessSet]) -> None:
    """After init: set the numbers of the job's sets in the ProcessSet objects."""
    numbers = {tuple(ranks): number for number, ranks in get_process_set_ids_and_ranks().items()}
    global_process_set.ranks = _core.process_set_ranks(0)
    known = [*_registered, *process_sets]
    _registered.clear()
    for process_set in known:
        process_set.process_set_id = numbers.get(tuple(process_set.ranks or ()))
        if process_set.process_set_id is not None and process_set not in _registered:
            _registered.append(process_set)


def forget_process_sets() -> None:
    """After a shutdown: no set is registered."""
    for process_set in _registered:
        process_set._invalidate()
    _registered.clear()
    global_process_set.ranks = None


def _setup(basics: Any) -> None:
    """Does nothing. Front ends of Horovod 0.28 passed their library; now there is only one."""


def _temp_process_set_object(process_set_id: int) -> ProcessSet:
    """A new ProcessSet object for the number of a registered set."""
    process_set = ProcessSet(_core.process_set_ranks(process_set_id))
    process_set.process_set_id = process_set_id
    return process_set


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Register a process set after init, and return it.

    All ranks of the job call it, with the same ranks and in the same order. It needs
    HOROVOD_DYNAMIC_PROCESS_SETS=1, or init(process_sets="dynamic").

    Ctrl-C ends the wait for the other ranks. The call continues in the background: after the other
    ranks have called too, get_process_set_ids_and_ranks() lists the set. hvd.shutdown() ends it.

    Raises ValueError for a duplicate, or if process sets are not dynamic, and NotImplementedError
    for a set from a communicator.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.mpi_comm is not None:
        raise NotImplementedError(
            "a process set from an MPI communicator cannot be added after init; pass a list of "
            "ranks, or give the set to init"
        )
    if process_set.process_set_id is not None:
        raise ValueError(f"a duplicate process set: {process_set} is registered already")
    ranks = process_set.ranks or []
    if sorted(ranks) in [_core.process_set_ranks(number) for number in _core.process_sets()]:
        # All ranks have the same sets, so all of them raise.
        raise ValueError(f"a duplicate process set: there is one of ranks {ranks}")
    process_set.process_set_id = _core.add_process_set(ranks)
    _registered.append(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a process set. All ranks of the job call it.

    Returns whether the set was removed: False for the global set and for an unregistered set.
    Ctrl-C ends the wait for the other ranks; the call continues as in add_process_set.
    """
    if process_set is global_process_set or process_set.process_set_id is None:
        return False
    number = process_set.process_set_id
    removed = _core.remove_process_set(number)
    for known in [known for known in _registered if known.process_set_id == number]:
        known._invalidate()
        _registered.remove(known)
    process_set._invalidate()
    return removed


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """Return the ranks of every registered set, by its number."""
    return {number: _core.process_set_ranks(number) for number in _core.process_sets()}


def place_in(process_set_id: int) -> tuple[int, int]:
    """The rank of this process in a registered set, and the size of the set.

    The process must be in the set.
    """
    ranks = _core.process_set_ranks(process_set_id)
    return ranks.index(_core.rank()), len(ranks)
