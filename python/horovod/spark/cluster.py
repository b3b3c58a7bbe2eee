# SPDX-License-Identifier: Apache-2.0
"""Where tasks run: the Spark whose driver is this process, or the other end of Spark Connect."""

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

# Of a new application on a busy machine none had come after 10 s; others then follow closely.
FIRST_SLOT_SECONDS = 60.0
SLOT_SECONDS = 10.0
# Executors of an application register one after the other in the first minute of its life.
YOUNG_SECONDS = 60.0
SETTLE_SECONDS = 2.0  # without a new slot, where no setting says how many to expect
LOOK_SECONDS = 0.2
WARN_SECONDS = 10.0
CANCEL_SECONDS = 60.0  # for tasks to end that were told to
CANCEL_INTERVAL_SECONDS = (
    1.0  # between one cancellation and the next: the job may not have begun at the first
)

# Be the task of this index, given the data of its partition; yields numbers of no interest.
Work = Callable[[int, Iterator[Any]], Iterator[int]]

THREAD = "horovod-spark-job"

_log = logging.getLogger("horovod.spark")
_runs = itertools.count()


class Cluster(Protocol):
    """One Spark, for one run."""

    def default_size(self, deadline: float = math.inf) -> int:
        """The number of tasks of a run without num_proc: as many as can run at the same time."""

    def is_in_driver(self) -> bool:
        """Whether tasks run in the driver, whose standard error is then also the executors' log."""

    def check_slots(self, wanted: int, deadline: float) -> None:
        """Raise if so many tasks cannot run at the same time, as far as that can be known."""

    def address(self) -> str:
        """By which executors reach this process."""

    def run(self, size: int, work: Work) -> None:
        """Run that many tasks, at the same time, to their end."""

    def cancel(self) -> None:
        """End a run() of another thread."""

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        """For such a run()."""


def active() -> Cluster:
    """The Spark that this process has a session of."""
    try:
        import pyspark
    except ImportError as error:
        raise ImportError(f"horovod.spark needs pyspark ({error}); pip install pyspark") from error
    # A client of Spark Connect alone has no such class.
    context = getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)
    if context is not None:
        return Driver(context)
    try:
        from pyspark.sql.connect.session import SparkSession
    except ImportError:  # what it needs is not installed, so there is no such session
        session = None
    else:
        # The active one is that of a thread, of which there may be others.
        session = SparkSession.getActiveSession() or SparkSession._get_default_session()
    if session is None:
        raise RuntimeError("there is no SparkContext in this process; make a SparkSession first")
    return Connect(session)


class Driver:
    """The Spark whose driver is this process."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._conf = context.getConf()
        self._group = f"horovod.spark.run.{next(_runs)}"

    def default_size(self, deadline: float = math.inf) -> int:
        slots = self._settled_slots(deadline)
        parallelism = self._context.defaultParallelism  # cores, unless a setting gives a number
        if slots:
            return min(slots, parallelism)
        # Spark does not tell, or there is no executor yet. What check_slots() is to wait for:
        guess = promised_slots(self._conf) or parallelism // _cpus_per_task(self._conf)
        limit = _slots_on_demand(self._conf) if _allocates_dynamically(self._conf) else None
        return max(1, guess if limit is None else min(guess, limit))

    def _settled_slots(self, deadline: float) -> int | None:
        """As slots(), once the executors of a young application have had the time to register."""
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
        """Seconds since the application has started."""
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
                    f"Spark has {slots} task slots, and {wanted} processes are asked for, which "
                    "have to run at the same time; pass a smaller num_proc, or give Spark more "
                    "cores (spark.executor.instances, spark.executor.cores, spark.cores.max, "
                    "local[N]) or fewer per task (spark.task.cpus)"
                )
            if now - warned > WARN_SECONDS:
                warned = now
                _log.warning("Spark has %d of the %d task slots that are needed", slots, wanted)
            time.sleep(LOOK_SECONDS)

    def slots(self) -> int | None:
        """How many tasks can run now; None where Spark does not say."""
        try:
            scala = self._context._jsc.sc()
            profile = scala.resourceProfileManager().defaultResourceProfile()
            return scala.maxNumConcurrentTasks(profile)
        except Exception:  # no part of Spark's public interface
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
    """A Spark at the other end of Spark Connect, whose executors can reach this process."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._tag = f"horovod.spark.run.{next(_runs)}"

    def default_size(self, deadline: float = math.inf) -> int:
        raise ValueError("with Spark Connect num_proc has to be given: it does not tell its slots")

    def is_in_driver(self) -> bool:
        return False

    def check_slots(self, wanted: int, deadline: float) -> None:
        """Spark Connect does not tell how many there are."""

    def address(self) -> str:
        # That of the interface towards the server, near which the executors are.
        where = socket.getaddrinfo(self._session.client.host.strip("[]"), 1, type=socket.SOCK_DGRAM)
        family, _, _, _, server = where[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(server)  # sends nothing
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
    """Whether executors come and go, with which Spark has no barrier jobs."""
    return conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true"


def _cpus_per_task(conf: Any) -> int:
    return int(conf.get("spark.task.cpus", "1"))


def promised_slots(conf: Any) -> int:
    """How many slots the settings ask the cluster for; 0 where they do not say."""
    executors, slots = conf.get("spark.executor.instances"), _slots_per_executor(conf)
    if executors is not None and slots is not None:
        return int(executors) * slots
    return int(conf.get("spark.cores.max", "0")) // _cpus_per_task(conf)


def _slots_per_executor(conf: Any) -> int | None:
    """None where an executor has as many cores as its host."""
    cores = conf.get("spark.executor.cores")
    if cores is None:
        return None
    by_cores = int(cores) // _cpus_per_task(conf)
    gpus = int(conf.get("spark.executor.resource.gpu.amount", "0"))
    per_task = float(conf.get("spark.task.resource.gpu.amount", "0"))
    if per_task == 0:
        return by_cores
    # Below 1 several tasks share a GPU, but none has parts of two.
    by_gpus = gpus * int(1 / per_task) if per_task < 1 else int(gpus / per_task)
    return min(by_cores, by_gpus)


def _slots_on_demand(conf: Any) -> int | None:
    """The most that executors on demand can give; None where there is no limit."""
    executors = conf.get("spark.dynamicAllocation.maxExecutors")
    slots = _slots_per_executor(conf)
    return None if executors is None or slots is None else int(executors) * slots


def check_on_demand(conf: Any, wanted: int) -> None:
    """Refuse what executors on demand can never give; Spark would leave tasks waiting."""
    if conf.get("spark.speculation", "false").lower() == "true":
        raise RuntimeError(
            "spark.speculation lets Spark start a slow task twice, and a rank can be there only "
            "once; set it to false, or spark.dynamicAllocation.enabled: barrier jobs have none"
        )
    slots = _slots_on_demand(conf)
    if slots is not None and slots < wanted:
        executors = conf.get("spark.dynamicAllocation.maxExecutors")
        raise RuntimeError(
            f"Spark can have {slots} task slots at most, and {wanted} processes are asked for, "
            "which have to run at the same time; pass a smaller num_proc, or allow Spark more "
            f"executors (spark.dynamicAllocation.maxExecutors is {executors}), more cores for each "
            "(spark.executor.cores) or fewer per task (spark.task.cpus)"
        )


class SparkJob:
    """A run of tasks, in a thread of its own; leaving it cancels what is left of it."""

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
            _log.warning("tasks of Spark go on %.0f s after they were cancelled", CANCEL_SECONDS)

    def has_ended(self) -> bool:
        return not self._thread.is_alive()
