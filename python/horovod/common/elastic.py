# SPDX-License-Identifier: Apache-2.0
"""Training that goes on after a failure: state that can be saved, restored and shared.

A function that `run_fn` has wrapped starts with a state that is the same on all ranks. When an
operation fails, it is called again, with the state of the last commit and a new start of the job.
"""

from __future__ import annotations

import enum
import functools
import logging
import queue
import threading
import time
from typing import Any, Callable

from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt

__all__ = ["HostUpdateResult", "ObjectState", "State", "notification_manager", "run_fn"]

_log = logging.getLogger("horovod.elastic")


class HostUpdateResult(enum.IntFlag):
    """What became of the hosts of a job."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


class State:
    """What a job goes on from; subclasses say what that is, by save, restore, sync and reset.

    bcast_object: a function that gives rank 0's object to every rank.
    get_rank: a function that says which rank this is, for subclasses.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._get_rank = get_rank
        self._host_messages: queue.SimpleQueue[tuple[float, int]] = queue.SimpleQueue()
        self._last_update = 0.0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        """Functions to call after each new start, before the state is shared.

        That is the place to adapt to another number of ranks, such as the learning rate.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The job has started anew: what was known about hosts is out of date."""
        self._host_messages = queue.SimpleQueue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Hosts have come or gone; called by any thread, and looked at by check_host_updates."""
        self._host_messages.put((timestamp, int(update_res)))

    def commit(self) -> None:
        """Save, so that a failure throws training back to here; HostsUpdatedInterrupt if due.

        All ranks commit at the same point. A commit copies the state: commit as often as its time
        is less than that of the work that would be lost.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all ranks if rank 0 knows that hosts have come or gone."""
        latest, changes = self._last_update, 0
        while not self._host_messages.empty():
            timestamp, change = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                changes |= change
        # Ranks hear of it at different times, or have come after it, and have to leave together.
        is_news = latest > self._last_update
        is_news, self._last_update, changes = self._bcast_object((is_news, latest, changes))
        if is_news:
            raise HostsUpdatedInterrupt(skip_sync=changes == HostUpdateResult.removed)

    def save(self) -> None:
        """Remember the state, in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Back to what was saved last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Rank 0's state on every rank."""
        raise NotImplementedError

    def reset(self) -> None:
        """Adapt to the job that has just started."""


class ObjectState(State):
    """Python objects as attributes: `ObjectState(broadcast_object, rank, epoch=0).epoch`.

    Lists, dicts, sets and tuples are copied when they are saved, with all that are in them. Of
    other objects the object is saved, not what is in it: it may hold on to a model.
    """

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state = _copied(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)

    def save(self) -> None:
        self._saved_state = {name: _copied(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        self._write_back()

    def sync(self) -> None:
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._write_back()

    def _write_back(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, _copied(value))


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, set, tuple):
        return type(value)(_copied(item) for item in value)
    return value


class NotificationManager:
    """Hands on to states that hosts have come or gone.

    That is known to the launcher of an elastic job, which tells rank 0. Nobody calls
    handle_hosts_updated in a job whose hosts are fixed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[State] = []

    def register_listener(self, listener: State) -> None:
        with self._lock:
            self._listeners.append(listener)

    def remove_listener(self, listener: State) -> None:
        with self._lock:
            self._listeners.remove(listener)

    def handle_hosts_updated(self, timestamp: float, update_res: int) -> None:
        with self._lock:
            for listener in self._listeners:
                listener.on_hosts_updated(timestamp, update_res)


notification_manager = NotificationManager()


class _Pauses:
    """Pauses before new starts: none after the first failure, longer while they come quickly."""

    FIRST, LONGEST = 0.1, 10.0

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._next = 0.0

    def begin(self) -> None:
        self._began = time.monotonic()

    def pause(self) -> None:
        """After a failure. One that took longer than any pause to come starts from none again."""
        if time.monotonic() - self._began > self.LONGEST:
            self._next = 0.0
        time.sleep(self._next)
        self._next = min(max(2 * self._next, self.FIRST), self.LONGEST)


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """Let `func(state, ...)` go on after failures; `reset` starts the job anew.

    An operation that fails because a rank was lost or has shut down (HorovodInternalError with
    can_be_cured) takes the state back to the last commit. When hosts have come or gone
    (HostsUpdatedInterrupt) it is kept as it is. Any other exception, and a new start that fails,
    ends the function. Failures that follow one another quickly are tried again after pauses of up
    to 10 seconds.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        notification_manager.register_listener(state)
        skip_sync = False
        pauses = _Pauses()
        try:
            while True:
                pauses.begin()
                try:
                    if not skip_sync:
                        state.sync()
                    return func(state, *args, **kwargs)
                except HorovodInternalError as error:
                    if not error.can_be_cured:
                        raise
                    _log.warning("Horovod starts again from the last commit, because: %s", error)
                    state.restore()
                    skip_sync = False
                    pauses.pause()
                except HostsUpdatedInterrupt as interrupt:
                    _log.info("Horovod starts anew with other hosts")
                    skip_sync = interrupt.skip_sync
                reset()
                state.on_reset()
        finally:
            notification_manager.remove_listener(state)

    return wrapper
