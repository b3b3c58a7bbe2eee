# SPDX-License-Identifier: Apache-2.0
"""Training that continues after a failure: state that can be saved, restored and shared.

run_fn wraps a training function. The function starts with a state that is the same on all ranks.
When an operation fails, the job restarts, and the function is called again with the state of the
last commit.
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
    """How the hosts of a job have changed."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


class State:
    """The state that a job continues from. Subclasses implement save, restore, sync and reset.

    bcast_object: a function that returns rank 0's object on every rank.
    get_rank: a function that returns the rank of this process, for subclasses.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._get_rank = get_rank
        self._host_messages: queue.SimpleQueue[tuple[float, int]] = queue.SimpleQueue()
        self._last_update = 0.0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        """Add functions to call after each restart, before the state is shared.

        They adapt the state to a new number of ranks, for example the learning rate.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called after a restart of the job. Drops old messages about hosts."""
        self._host_messages = queue.SimpleQueue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Record that hosts were added or removed, for check_host_updates.

        Any thread may call it.
        """
        self._host_messages.put((timestamp, int(update_res)))

    def commit(self) -> None:
        """Save the state: after a failure, training continues from here. Then check for new hosts.

        All ranks commit at the same point. A commit copies the state: do it so often that it takes
        less time than the work that a failure would lose.

        Raises HostsUpdatedInterrupt as check_host_updates does.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all ranks if rank 0 has a message about changed hosts."""
        latest, changes = self._last_update, 0
        while not self._host_messages.empty():
            timestamp, change = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                changes |= change
        # Messages reach ranks at different times, or never reach a rank that started later, but all
        # ranks must leave the function together. So rank 0 decides.
        is_news = latest > self._last_update
        is_news, self._last_update, changes = self._bcast_object((is_news, latest, changes))
        if is_news:
            raise HostsUpdatedInterrupt(skip_sync=changes == HostUpdateResult.removed)

    def save(self) -> None:
        """Keep a copy of the state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Return to the state of the last save."""
        raise NotImplementedError

    def sync(self) -> None:
        """Copy rank 0's state to every rank."""
        raise NotImplementedError

    def reset(self) -> None:
        """Adapt to the job that has just restarted."""


class ObjectState(State):
    """Python objects as attributes: `ObjectState(broadcast_object, rank, epoch=0).epoch`.

    save() copies lists, dicts, sets and tuples deeply. It keeps a reference to other objects and
    does not copy them, because they may refer to a model.
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
    """Passes messages about added and removed hosts to states. Any thread may call it.

    The launcher of an elastic job sends them to rank 0. In a job of fixed hosts there are none.
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
    """Pauses before restarts: none after the first failure, then longer for frequent failures."""

    FIRST, LONGEST = 0.1, 10.0

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._next = 0.0

    def begin(self) -> None:
        self._began = time.monotonic()

    def pause(self) -> None:
        """Sleep after a failure. A run longer than LONGEST seconds resets the pause to none."""
        if time.monotonic() - self._began > self.LONGEST:
            self._next = 0.0
        time.sleep(self._next)
        self._next = min(max(2 * self._next, self.FIRST), self.LONGEST)


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """Wrap `func(state, ...)` so that it continues after failures; `reset` restarts the job.

    After an operation fails because a rank was lost or has shut down (HorovodInternalError with
    can_be_cured), the state returns to the last commit. After hosts were added or removed
    (HostsUpdatedInterrupt), the state stays. Any other exception ends the function, and so does a
    restart that fails. Failures that follow each other quickly are followed by pauses of up to 10
    seconds.
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
                    _log.warning("Horovod restarts from the last commit, because: %s", error)
                    state.restore()
                    skip_sync = False
                    pauses.pause()
                except HostsUpdatedInterrupt as interrupt:
                    _log.info("Horovod restarts with other hosts")
                    skip_sync = interrupt.skip_sync
                reset()
                state.on_reset()
        finally:
            notification_manager.remove_listener(state)

    return wrapper
