"""The driver's part: starts the tasks, gives them ranks, waits, and brings back results."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable, TextIO

from horovod.common.exceptions import HorovodInternalError
from horovod.runner import mailbox
from horovod.spark import meeting
from horovod.spark.task import host

_log = logging.getLogger("horovod.spark")

START_SECONDS = 600.0
SLOT_SECONDS = 10.0  # executors that have just been asked for come within seconds
LOOK_SECONDS = 0.2  # how often to look whether the Spark job has ended
END_SECONDS = 5.0  # for ranks to hear of the failure of another and end by themselves

NAMES = {1: "stdout", 2: "stderr"}

_runs = itertools.count()


def run(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    num_proc: int | None = None,
    start_timeout: float | None = None,
    use_mpi: bool | None = None,
    use_gloo: bool | None = None,
    extra_mpi_args: str | None = None,
    env: dict[str, str | None] | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    verbose: int = 1,
    nics: list[str] | None = None,
    prefix_output_with_timestamp: bool = False,
    executable: str | None = None,
) -> list[Any]:
    """Call fn(*args, **kwargs) on `num_proc` ranks, each in a task of Spark; results by rank.

    num_proc: by default as many as Spark runs side by side.
    start_timeout: seconds until all tasks have to be there; HOROVOD_SPARK_START_TIMEOUT, or 600.
    env: variables of the ranks besides those of the executors; None unsets one.
    stdout, stderr: where to write what ranks say, each line with its rank; by default it is in the
        logs of the executors.
    nics: the network interfaces that ranks may use.
    """
    if use_mpi and use_gloo:
        raise ValueError("use_gloo and use_mpi exclude each other; pass one of them")
    if use_mpi:
        raise ValueError("use_mpi is not there yet; leave it out: ranks need no MPI")
    return run_ranks(
        fn,
        args,
        kwargs or {},
        num_proc,
        start_timeout,
        env={**(env or {}), **({"HOROVOD_NETWORK_INTERFACES": ",".join(nics)} if nics else {})},
        streams={1: stdout, 2: stderr, meeting.MESSAGES: None},
        verbose=verbose,
        with_time=prefix_output_with_timestamp,
        executable=executable,
    )


def run_ranks(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    num_proc: int | None,
    start_seconds: float | None = None,
    *,
    env: dict[str, str | None],
    streams: dict[int, TextIO | None],
    verbose: int = 1,
    with_time: bool = False,
    executable: str | None = None,
) -> list[Any]:
    """As run(). `streams` are the caller's for what ranks write, and for their messages."""
    context = _active_context()
    if num_proc is None:
        num_proc = context.defaultParallelism
    if num_proc <= 0:
        raise ValueError(f"num_proc has to be above 0, not {num_proc}")
    if start_seconds is None:
        start_seconds = float(os.environ.get("HOROVOD_SPARK_START_TIMEOUT", START_SECONDS))
    if verbose >= 1:
        _log.info("Running %d processes", num_proc)
    uses_barrier = not _allocates_dynamically(context)
    if uses_barrier:
        _wait_for_slots(context, num_proc)

    with mailbox.Office(is_local=False) as office:
        office.send("func", (fn, tuple(args), kwargs))
        invitation = meeting.Invitation(
            addresses=f"{context.getConf().get('spark.driver.host')}:{office.port}",
            secret=office.secret,
            start_seconds=start_seconds,
            environment=env,
            executable=executable,
            wants_output=streams[1] is not None or streams[2] is not None,
        )
        with _Job(context, num_proc, invitation, uses_barrier) as job:
            run = _Run(office, job, num_proc, start_seconds)
            run.give_places()
            with _outputs(invitation, num_proc, streams, with_time):
                run.wait()
            return run.results()


def _active_context() -> Any:
    try:
        import pyspark
    except ImportError as error:
        raise ImportError(f"horovod.spark needs pyspark ({error}); pip install pyspark") from error
    context = pyspark.SparkContext._active_spark_context
    if context is None:
        raise RuntimeError(
            "there is no SparkContext in this process; make a SparkSession first. A session of "
            "Spark Connect has none: Horovod has to run where the driver of Spark is"
        )
    return context


def _allocates_dynamically(context: Any) -> bool:
    """Whether executors come and go, with which Spark has no barrier jobs."""
    return context.getConf().get("spark.dynamicAllocation.enabled", "false").lower() == "true"


def _slots(context: Any) -> int | None:
    """How many tasks Spark can run side by side now; None where it does not say."""
    try:
        scala = context._jsc.sc()
        return scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile())
    except Exception:  # no part of Spark's public interface
        return None


def _wait_for_slots(context: Any, wanted: int) -> None:
    deadline = time.monotonic() + SLOT_SECONDS
    while (slots := _slots(context)) is not None and slots < wanted:
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"Spark has {slots} task slots, and {wanted} processes are asked for, which have "
                "to run at the same time; pass a smaller num_proc, or give Spark more cores "
                "(spark.executor.instances, spark.executor.cores, spark.cores.max, local[N]) or "
                "fewer per task (spark.task.cpus)"
            )
        time.sleep(LOOK_SECONDS)


class _Job:
    """The Spark job of a run, in a thread of its own; leaving it cancels what is left of it."""

    def __init__(
        self, context: Any, num_proc: int, invitation: meeting.Invitation, uses_barrier: bool
    ) -> None:
        from pyspark import InheritableThread

        self._context = context
        self._group = f"horovod.spark.run.{next(_runs)}"
        self._tasks = context.parallelize(range(num_proc), num_proc)
        if uses_barrier:
            self._tasks = self._tasks.barrier()
        self._work = functools.partial(host.serve, invitation)
        self.error: Exception | None = None
        self._thread = InheritableThread(target=self._run, name="horovod-spark-job", daemon=True)

    def _run(self) -> None:
        self._context.setJobGroup(self._group, "Horovod", interruptOnCancel=True)
        try:
            self._tasks.mapPartitionsWithIndex(self._work).collect()
        except Exception as error:
            self.error = error

    def __enter__(self) -> _Job:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
            self._thread.join()

    def has_ended(self) -> bool:
        return not self._thread.is_alive()


class _Run:
    """One run, from the tasks' arrival to their results."""

    def __init__(
        self, office: mailbox.Office, job: _Job, num_proc: int, start_seconds: float
    ) -> None:
        self._office = office
        self._job = job
        self._size = num_proc
        self._start_seconds = start_seconds
        self._hosts: dict[int, str] = {}
        self._failure: meeting.Failure | None = None

    def give_places(self) -> None:
        """Wait for the tasks, and tell each of them its rank."""
        deadline = time.monotonic() + self._start_seconds
        arrivals: list[meeting.Arrival] = []
        while len(arrivals) < self._size:
            there, arrival = self._office.receive(
                meeting.ARRIVAL.format(len(arrivals)), LOOK_SECONDS
            )
            if there:
                arrivals.append(arrival)
            elif self._job.has_ended():
                raise RuntimeError(self._job_failure()) from self._job.error
            elif time.monotonic() > deadline:
                raise RuntimeError(
                    "Timed out waiting for Spark tasks to start. Task "
                    f"{len(arrivals)} of {self._size} is not there. Check that Spark has enough "
                    "resources for all of them at once, that executors can reach the driver, or "
                    "pass a larger start_timeout (HOROVOD_SPARK_START_TIMEOUT). Timeout after "
                    f"{self._start_seconds:g} seconds."
                )
        for index, place in enumerate(meeting.places_of(arrivals)):
            self._hosts[place.rank] = arrivals[index].name
            self._office.send(meeting.PLACE.format(index), place)

    def wait(self) -> None:
        """Until the job has ended; a rank that fails ends the others."""
        deadline = float("inf")
        while not self._job.has_ended() and time.monotonic() < deadline:
            if self._failure is not None:
                time.sleep(LOOK_SECONDS)
                continue
            there, failure = self._office.receive(meeting.FAILED, LOOK_SECONDS)
            if there:
                self._failure = failure
                deadline = time.monotonic() + END_SECONDS

    def results(self) -> list[Any]:
        results = self._office.results()
        failures = [(rank, result) for rank, result in sorted(results.items()) if result.error]
        # One that lost the others is a consequence; the cause is with those.
        failures.sort(key=lambda failure: isinstance(failure[1].error, HorovodInternalError))
        there, failure = self._office.receive(meeting.FAILED, 0)
        died = there and failure.rank not in [rank for rank, _ in failures]
        if failures and not (died and isinstance(failures[0][1].error, HorovodInternalError)):
            rank, result = failures[0]
            raise RuntimeError(
                f"one or more processes exited with non-zero status, because rank {rank} on host "
                f"{self._hosts[rank]} raised an exception:\n{result.traceback}"
            ) from result.error
        if there:
            who = f"Process name: {failure.rank}, " if failure.rank >= 0 else ""
            raise RuntimeError(
                f"one or more processes exited with non-zero status. {who}Host: {failure.host}, "
                f"it ended {failure.ended}"
            )
        if self._job.error is not None:
            raise RuntimeError(self._job_failure()) from self._job.error
        return [results[rank].value for rank in range(self._size)]

    def _job_failure(self) -> str:
        text = str(self._job.error).strip().splitlines()
        reason = next((line for line in text if "Exception" in line or "failure" in line), "")
        return f"Spark job has failed, or was cancelled: {reason.strip() or text[:1]}"


@contextlib.contextmanager
def _outputs(
    invitation: meeting.Invitation,
    num_proc: int,
    streams: dict[int, TextIO | None],
    with_time: bool,
) -> Iterator[None]:
    """Writes what ranks say to the caller's streams."""
    lock = threading.Lock()
    over = threading.Event()

    def pump(rank: int, number: int, stream: TextIO) -> None:
        box = mailbox.Box(invitation.addresses, invitation.secret)
        rest = b""
        for piece in itertools.count():
            name = meeting.OUTPUT.format(f"{rank}.{number}", piece)
            there, data = box.get(name, LOOK_SECONDS)
            while not there and not over.is_set():
                there, data = box.get(name, LOOK_SECONDS)
            if not there or data is None:
                break
            box.forget(name)
            *lines, rest = (rest + data).split(b"\n")
            write(stream, rank, number, lines)
        write(stream, rank, number, [rest] if rest else [])

    def write(stream: TextIO, rank: int, number: int, lines: list[bytes]) -> None:
        label = "" if number == meeting.MESSAGES else f"[{rank}]<{NAMES[number]}>:"
        if with_time and label:
            label = f"{time.strftime('%a %b %d %H:%M:%S %Y')}{label}"
        text = "".join(f"{label}{line.decode(errors='replace')}\n" for line in lines)
        with lock:
            stream.write(text)
            stream.flush()

    threads = []
    for rank in range(num_proc):
        for number, stream in streams.items():
            if stream is not None:
                thread = threading.Thread(target=pump, args=(rank, number, stream), daemon=True)
                threads.append(thread)
                thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
