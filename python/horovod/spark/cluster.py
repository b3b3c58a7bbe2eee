# SPDX-License-Identifier: Apache-2.0
"""The Spark cluster that runs the tasks. Its driver is this process, or a Spark Connect server."""

from __future__ import annotations

import itertools
import logging
import math
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable, Protocol

# Time limits for the first task slot and for each further slot. On a busy machine a new application
# had no slot after 10 s; the other slots followed soon after the first.
FIRST_SLOT_SECONDS = 60.0
SLOT_SECONDS = 10.0
# The executors of an application register one by one in its first minute.
YOUNG_SECONDS = 60.0
SETTLE_SECONDS = 2.0  # wait for another slot if no setting gives the expected number of slots
LOOK_SECONDS = 0.2  # interval of checks for slots
WARN_SECONDS = 10.0  # interval of warnings about missing slots
CANCEL_SECONDS = 60.0  # time limit for cancelled tasks to end
# Interval of cancellations. The first one may come before the Spark job has begun, without effect.
CANCEL_INTERVAL_SECONDS = 1.0

# The body of a Spark task: receives its index and the rows of its partition. The yielded values are
# ignored.
Work = Callable[[int, Iterator[Any]], Iterator[int]]

THREAD = "horovod-spark-job"

_log = logging.getLogger("horovod.spark")
_runs = itertools.count()


class Cluster(Protocol):
    """The Spark cluster of one run. A slot is a task slot."""

    def default_size(self, deadline: float = math.inf) -> int:
        """The number of tasks that can run at the same time, for a run without num_proc."""

    def is_in_driver(self) -> bool:
        """Whether tasks run in the driver. Its standard error is then also the executors' log."""

    def check_slots(self, wanted: int, deadline: float) -> None:
        """Raise RuntimeError if it is known that `wanted` tasks cannot run at the same time."""

    def address(self) -> str:
        """The address by which executors reach this process."""

    def run(self, size: int, work: Work) -> None:
        """Run `size` tasks at the same time, and wait for their end."""

    def cancel(self) -> None:
        """End the run() of another thread."""

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        """A new thread for run()."""


def active() -> Cluster:
    """The Spark cluster of the session of this process. RuntimeError if there is no session."""
    try:
        import pyspark
    except ImportError as error:
        raise ImportError(f"horovod.spark needs pyspark ({error}); pip install pyspark") from error
    # An installation of the Spark Connect client alone does not have the class.
    context = getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)
    if context is not None:
        return Driver(context)
    try:
        from pyspark.sql.connect.session import SparkSession
    except ImportError:  # its requirements are not installed, so there is no such session
        session = None
    else:
        # The active session belongs to one thread; this may be another thread.
        session = SparkSession.getActiveSession() or SparkSession._get_default_session()
    if session is None:
        raise RuntimeError("there is no SparkContext in this process; make a SparkSession first")
    return Connect(session)


class Driver:
    """A Spark cluster whose driver is this process."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._conf = context.getConf()
        self._group = f"horovod.spark.run.{next(_runs)}"

    def default_size(self, deadline: float = math.inf) -> int:
        slots = self._settled_slots(deadline)
        parallelism = (
            self._context.defaultParallelism
        )  # the number of cores, unless a setting overrides it
        if slots:
            return min(slots, parallelism)
        # Spark does not report slots, or has no executor yet. check_slots() waits for the number
        # that is returned here.
        guess = promised_slots(self._conf) or parallelism // _cpus_per_task(self._conf)
        limit = _slots_on_demand(self._conf) if _allocates_dynamically(self._conf) else None
        return max(1, guess if limit is None else min(guess, limit))

    def _settled_slots(self, deadline: float) -> int | None:
        """As slots(), but first waits for executors that may still register.

        It waits only in the first YOUNG_SECONDS of an application.
        """
        slots = self.slots()
        if self.is_in_driver() or _allocates_dynamically(self._conf) or self._age() > YOUNG_SECONDS:
            return slots
        promised = promised_slots(self._conf)
        most, latest = -1, deadline
        while slots is not None and not 0 < promised <= slots:
            now = time.monotonic()
            if slots > most:
                patience = SLOT_SECONDS if promised else SETTLE_SECONDS
                most, latest = slots, now + (patience if slots else FIRST_SLOT_SECONDS)
            if now > min(latest, deadline):
                break
            time.sleep(LOOK_SECONDS)
            slots = self.slots()
        return slots

    def _age(self) -> float:
        """Seconds since the start of the application."""
        return time.time() - self._context.startTime / 1000

    def is_in_driver(self) -> bool:
        return re.fullmatch(r"local(\[.*\])?", self._conf.get("spark.master", "")) is not None

    def check_slots(self, wanted: int, deadline: float) -> None:
        if _allocates_dynamically(self._conf):
            check_on_demand(self._conf, wanted)
            return
        is_promised = promised_slots(self._conf) >= wanted
        most, patience = 0, time.monotonic() + FIRST_SLOT_SECONDS
        warned = time.monotonic()
        while (slots := self.slots()) is not None and slots < wanted:
            now = time.monotonic()
            if slots > most:
                most, patience = slots, now + SLOT_SECONDS
            if now > (deadline if is_promised else min(patience, deadline)):
                raise RuntimeError(
                    f"Spark has {slots} task slots, but {wanted} processes are requested, which "
                    "must run at the same time; pass a smaller num_proc, or give Spark more "
                    "cores (spark.executor.instances, spark.executor.cores, spark.cores.max, "
                    "local[N]) or fewer per task (spark.task.cpus)"
                )
            if now - warned > WARN_SECONDS:
                warned = now
                _log.warning("Spark has %d of the %d task slots that are needed", slots, wanted)
            time.sleep(LOOK_SECONDS)

    def slots(self) -> int | None:
        """The number of tasks that can run now; None if Spark does not report it."""
        try:
            scala = self._context._jsc.sc()
            profile = scala.resourceProfileManager().defaultResourceProfile()
            return scala.maxNumConcurrentTasks(profile)
        except Exception:  # not a part of Spark's public interface
            return None

    def address(self) -> str:
        return self._conf.get("spark.driver.host")

    def run(self, size: int, work: Work) -> None:
        self._context.setJobGroup(self._group, "Horovod", interruptOnCancel=True)
        tasks = self._context.parallelize(range(size), size)
        if not _allocates_dynamically(self._conf):
            tasks = tasks.barrier()
        tasks.mapPartitionsWithIndex(work).collect()

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        from pyspark import InheritableThread

        return InheritableThread(target=work, name=THREAD, daemon=True)


class Connect:
    """A Spark cluster behind Spark Connect. Its executors must be able to reach this process."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._tag = f"horovod.spark.run.{next(_runs)}"

    def default_size(self, deadline: float = math.inf) -> int:
        raise ValueError(
            "num_proc has to be given: Spark Connect does not report the number of task slots"
        )

    def is_in_driver(self) -> bool:
        return False

    def check_slots(self, wanted: int, deadline: float) -> None:
        """Does nothing: Spark Connect does not report its slots."""

    def address(self) -> str:
        # The address of the interface towards the server: the executors are near the server.
        where = socket.getaddrinfo(self._session.client.host.strip("[]"), 1, type=socket.SOCK_DGRAM)
        family, _, _, _, server = where[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(server)  # selects the interface, and sends nothing
            address = probe.getsockname()[0]
        return f"[{address}]" if family == socket.AF_INET6 else address

    def run(self, size: int, work: Work) -> None:
        def in_arrow(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow
            from pyspark import TaskContext

            ranks = list(work(TaskContext.get().partitionId(), batches))
            yield pyarrow.RecordBatch.from_pydict({"rank": ranks})

        self._session.addTag(self._tag)
        tasks = self._session.range(0, size, 1, size)
        is_barrier = not _allocates_dynamically(self._session.conf)
        tasks.mapInArrow(in_arrow, "rank long", barrier=is_barrier).collect()

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=work, name=THREAD, daemon=True)


def _allocates_dynamically(conf: Any) -> bool:
    """Whether Spark adds and removes executors. Spark does not support barrier jobs then."""
    return conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true"


def _cpus_per_task(conf: Any) -> int:
    return int(conf.get("spark.task.cpus", "1"))


def promised_slots(conf: Any) -> int:
    """The number of slots that the settings request; 0 if the settings do not contain it."""
    executors, slots = conf.get("spark.executor.instances"), _slots_per_executor(conf)
    if executors is not None and slots is not None:
        return int(executors) * slots
    return int(conf.get("spark.cores.max", "0")) // _cpus_per_task(conf)


def _slots_per_executor(conf: Any) -> int | None:
    """None if no setting limits the cores of an executor, which then has all cores of its host."""
    cores = conf.get("spark.executor.cores")
    if cores is None:
        return None
    by_cores = int(cores) // _cpus_per_task(conf)
    gpus = int(conf.get("spark.executor.resource.gpu.amount", "0"))
    per_task = float(conf.get("spark.task.resource.gpu.amount", "0"))
    if per_task == 0:
        return by_cores
    # Below 1, several tasks share a GPU, but no task has parts of two GPUs.
    by_gpus = gpus * int(1 / per_task) if per_task < 1 else int(gpus / per_task)
    return min(by_cores, by_gpus)


def _slots_on_demand(conf: Any) -> int | None:
    """The largest number of slots under dynamic allocation; None without a limit."""
    executors = conf.get("spark.dynamicAllocation.maxExecutors")
    slots = _slots_per_executor(conf)
    return None if executors is None or slots is None else int(executors) * slots


def check_on_demand(conf: Any, wanted: int) -> None:
    """Raise RuntimeError if the run can never have all its slots, or if Spark speculates."""
    if conf.get("spark.speculation", "false").lower() == "true":
        raise RuntimeError(
            "spark.speculation lets Spark start a slow task twice, but a rank can exist only once; "
            "set spark.speculation or spark.dynamicAllocation.enabled to false"
        )
    slots = _slots_on_demand(conf)
    if slots is not None and slots < wanted:
        executors = conf.get("spark.dynamicAllocation.maxExecutors")
        raise RuntimeError(
            f"Spark can have {slots} task slots at most, but {wanted} processes are requested, "
            "which must run at the same time; pass a smaller num_proc, or allow Spark more "
            f"executors (spark.dynamicAllocation.maxExecutors is {executors}), more cores for each "
            "(spark.executor.cores) or fewer per task (spark.task.cpus)"
        )


class SparkJob:
    """A Spark job that runs in a thread of its own. Leaving the context cancels the job.

    error: the exception of the job, after has_ended().
    """

    def __init__(self, cluster: Cluster, size: int, work: Work) -> None:
        self._cluster = cluster
        self._size = size
        self._work = work
        self.error: Exception | None = None
        self._thread = cluster.thread(self._run)

    def _run(self) -> None:
        try:
            self._cluster.run(self._size, self._work)
        except Exception as error:
            self.error = error

    def __enter__(self) -> SparkJob:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        latest = time.monotonic() + CANCEL_SECONDS
        while self._thread.is_alive() and time.monotonic() < latest:
            self._cluster.cancel()
            self._thread.join(CANCEL_INTERVAL_SECONDS)
        if self._thread.is_alive():
            _log.warning("Spark tasks still run %.0f s after they were cancelled", CANCEL_SECONDS)

    def has_ended(self) -> bool:
        return not self._thread.is_alive()
