# SPDX-License-Identifier: Apache-2.0
"""Functions that run in threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any, Callable


def in_thread(
    target: Callable[..., Any],
    args: tuple[Any, ...] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Call target(*args) in a new thread, and return the thread.

    silent: ignores exceptions of the function. Raises ValueError if args is not a tuple.
    """
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args).__name__}: write (x,) for one")

    def call() -> None:
        try:
            target(*args)
        except Exception:
            if not silent:
                raise

    thread = threading.Thread(target=call, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(
    event: threading.Event | None,
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    stop: threading.Event | None = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Call func(*args) in a new thread after `event` is set, and return the thread.

    stop: ends the thread without the call; checked every `check_stop_interval_s` seconds.
    silent: ignores exceptions of the function.
    Raises ValueError if there is no event, if args is not a tuple, or for a thread that is not a
    daemon and has no stop event.
    """
    if event is None:
        raise ValueError("Event must not be None")
    if stop is None and not daemon:
        raise ValueError("Stop event must be given when the thread is no daemon: it may never end")

    def wait() -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args).__name__}: write (x,) for one")
    return in_thread(wait, name="horovod-on-event", daemon=daemon, silent=silent)


def execute_function_multithreaded(
    fn: Callable[..., Any],
    args_list: Sequence[Sequence[Any]],
    block_until_all_done: bool = True,
    max_concurrent_executions: int = 1000,
) -> dict[int, Any] | None:
    """Call fn(*args) for each item of args_list, in up to `max_concurrent_executions` threads.

    Returns the results by their index in the list, or raises the exception with the lowest index.
    Without `block_until_all_done` it returns None immediately.
    """
    waiting: queue.SimpleQueue[tuple[int, Sequence[Any]]] = queue.SimpleQueue()
    for item in enumerate(args_list):
        waiting.put(item)
    results: dict[int, Any] = {}
    errors: dict[int, Exception] = {}

    def work() -> None:
        while True:
            try:
                index, args = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results[index] = fn(*args)
            except Exception as error:
                errors[index] = error

    count = min(max_concurrent_executions, len(args_list))
    workers = [in_thread(work, name=f"horovod-call-{i}") for i in range(count)]
    if not block_until_all_done:
        return None
    for worker in workers:
        worker.join()
    for index in sorted(errors):
        raise errors[index]
    return dict(sorted(results.items()))
