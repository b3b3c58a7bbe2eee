# SPDX-License-Identifier: Apache-2.0
"""The part of a run on the driver: starts the tasks, assigns ranks, waits, and returns the results.

A job in this file is a Spark job: the tasks of one run. A slot is a task slot of Spark.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import re
import sys
import time
from typing import Any, Callable, TextIO

from horovod.common import settings
from horovod.common.exceptions import HorovodInternalError
from horovod.runner import call, rendezvous
from horovod.runner.options import OutputStreams, RunOptions
from horovod.runner.output import is_interactive
from horovod.spark import cluster, mpirun, output, protocol
from horovod.spark.task import rank_task

_log = logging.getLogger("horovod.spark")

WARN_SECONDS = 10.0  # interval of warnings about missing tasks
LOOK_SECONDS = 0.2  # interval of checks for the end of the Spark job
END_SECONDS = 5.0  # after a failure, for the other ranks to notice it and end themselves


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
    nics: list[str] | str | None = None,
    prefix_output_with_timestamp: bool = False,
    executable: str | None = None,
) -> list[Any]:
    """Call fn(*args, **kwargs) on `num_proc` ranks, one per Spark task.

    Returns the results in order of ranks. All tasks run at the same time.

    fn, args, kwargs: cloudpickle must be able to pickle them; else ValueError names the part.
    num_proc: number of ranks. By default the number of Spark's task slots, which depends on
        spark.task.cpus and on GPUs per task; at most spark.default.parallelism, if that is set.
    start_timeout: seconds until all tasks must have started; by default
        HOROVOD_SPARK_START_TIMEOUT, or 600.
    use_mpi: mpirun starts the ranks, with `extra_mpi_args`, and shows their output. By default, or
        with use_gloo, the tasks start them.
    env: variables of the ranks in addition to those of the executors; None unsets one.
    stdout, stderr: streams for the output of the ranks, each line with a label that names its rank.
        By default the output is in the logs of the executors. A shell or notebook shows standard
        output too, without labels.
    verbose: 0 hides the number of processes.
    nics: names of the network interfaces that ranks may use; a list, or a text with commas.
    prefix_output_with_timestamp: each line of output starts with the time.
    executable: the Python interpreter of the ranks; by default that of the executors.

    Raises RuntimeError if there is no Spark session or too few task slots, if tasks do not start in
    time, if a rank fails (its exception is the cause), or if the Spark job fails. Raises ValueError
    for wrong arguments.
    """
    if extra_mpi_args and not use_mpi:
        raise ValueError("extra_mpi_args are for mpirun; pass use_mpi=True, or leave them out")
    plain = stdout is None and is_interactive()
    options = RunOptions(
        num_proc=num_proc,
        start_timeout=start_timeout,
        use_mpi=use_mpi,
        use_gloo=use_gloo,
        mpi_args=extra_mpi_args,
        network_interfaces=nics.split(",") if isinstance(nics, str) else nics or (),
        executable=executable,
        verbose=verbose,
        environment=env or {},
        output=OutputStreams(
            stdout=sys.stdout if plain else stdout,
            stderr=stderr,
            plain_stdout=plain,
            with_time=prefix_output_with_timestamp,
        ),
    )
    return run_ranks(fn, args, kwargs or {}, options)


def run_ranks(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: RunOptions,
) -> list[Any]:
    """Call fn(*args, **kwargs) on the ranks of a run, and return the results in order of ranks."""
    mpi_args = mpirun.arguments(options) if options.use_mpi else []
    packed = call.pack(fn, args, kwargs)
    if options.use_mpi:
        mpirun.check()
    spark = cluster.active()
    start_seconds = options.start_timeout
    if start_seconds is None:
        start_seconds = settings.number("HOROVOD_SPARK_START_TIMEOUT")
    deadline = time.monotonic() + start_seconds
    size = options.num_proc
    if size is None:
        size = spark.default_size(deadline)
    if size <= 0:
        raise ValueError(f"num_proc has to be above 0, not {size}")
    if options.verbose >= 1:
        print(f"Running {size} processes...", file=sys.stderr, flush=True)
    spark.check_slots(size, deadline)

    environment = dict(options.environment)
    if options.network_interfaces:
        environment["HOROVOD_NETWORK_INTERFACES"] = ",".join(options.network_interfaces)
    tls = rendezvous.uses_tls({**os.environ, **environment})
    with rendezvous.RendezvousServer(is_local=False, tls=tls) as server:
        server.send_pickled("func", packed)
        sent, logged = _destinations(options.output, spark.is_in_driver())
        task_settings = protocol.TaskSettings(
            addresses=f"{spark.address()}:{server.port}",
            secret=server.secret,
            tls=tls,
            start_seconds=start_seconds,
            environment=environment,
            executable=options.executable,
            sent=sent,
            logged=logged,
            wants_messages=not options.use_mpi and options.output.messages is not None,
            uses_mpi=bool(options.use_mpi),
        )
        # The address for executors may be unreachable from the driver itself.
        here = dataclasses.replace(task_settings, addresses=f"127.0.0.1:{server.port}")
        with cluster.SparkJob(spark, size, functools.partial(rank_task.run, task_settings)) as job:
            ranks = _Ranks(server, job, size)
            assignments = ranks.assign_ranks(deadline)
            if not options.use_mpi:
                with output.shown(here, options.output):
                    return ranks.results()
            server.send(protocol.ASSIGNMENTS, assignments)
            words = mpirun.command(assignments, mpi_args)
            with mpirun.Mpirun(words, here, options.output):
                return ranks.results()


def _destinations(
    streams: OutputStreams, is_in_driver: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The streams of a rank that the driver receives, and those that executors log."""
    both = (protocol.STDOUT, protocol.STDERR)
    sent = tuple(name for name in both if name in streams.by_name())
    # With Spark inside this process, the executors' log and the shell are the same terminal.
    if streams.plain_stdout and not is_in_driver:
        return sent, both
    return sent, tuple(name for name in both if name not in sent)


class _Ranks:
    """The ranks of one run, from the locations of their tasks to their results."""

    def __init__(
        self, server: rendezvous.RendezvousServer, job: cluster.SparkJob, size: int
    ) -> None:
        self._server = server
        self._job = job
        self._size = size
        self._hosts: dict[int, str] = {}
        self._failures: list[protocol.Failure] = []

    def assign_ranks(self, deadline: float) -> list[protocol.RankAssignment]:
        """Wait for the tasks, and send each its rank assignment.

        Returns the assignments in order of ranks. Raises RuntimeError if a task does not start
        before the deadline, or if the Spark job ends.
        """
        warned = time.monotonic()
        locations: list[protocol.TaskLocation] = []
        while len(locations) < self._size:
            there, location = self._server.receive(
                protocol.LOCATION.format(len(locations)), LOOK_SECONDS
            )
            if there:
                locations.append(location)
            elif self._job.has_ended():
                raise RuntimeError(self._job_failure()) from self._job.error
            elif time.monotonic() > deadline:
                raise RuntimeError(
                    "Timed out waiting for Spark tasks to start: "
                    f"{self._arrived()} of {self._size} have started. Check that Spark has enough "
                    "resources for all of them at once, that executors can reach the driver, or "
                    "pass a larger start_timeout (HOROVOD_SPARK_START_TIMEOUT)"
                )
            elif time.monotonic() - warned > WARN_SECONDS:
                warned = time.monotonic()
                _log.warning(
                    "%d of %d Spark tasks have started; the other tasks wait for free task slots, "
                    "for executors, or for a connection to the driver. Time left: %.0f s",
                    self._arrived(),
                    self._size,
                    deadline - warned,
                )
        assignments = protocol.assign_ranks(locations)
        for index, assignment in enumerate(assignments):
            self._hosts[assignment.rank] = locations[index].name
            self._server.send(protocol.ASSIGNMENT.format(index), assignment)
        return sorted(assignments, key=lambda assignment: assignment.rank)

    def _arrived(self) -> int:
        names = [protocol.LOCATION.format(index) for index in range(self._size)]
        return sum(self._server.receive(name, 0)[0] for name in names)

    def _wait(self) -> None:
        """Wait for the end of the Spark job, or until END_SECONDS after the first failure."""
        deadline = float("inf")
        while not self._job.has_ended() and time.monotonic() < deadline:
            if self._take_failure(LOOK_SECONDS) and deadline == float("inf"):
                deadline = time.monotonic() + END_SECONDS

    def _take_failure(self, seconds: float) -> bool:
        there, failure = self._server.take(protocol.FAILED, len(self._failures), seconds)
        if there:
            self._failures.append(failure)
        return there

    def results(self) -> list[Any]:
        """Wait for the results, and return them in order of ranks."""
        self._wait()
        while self._take_failure(0):
            pass
        results = self._server.results()
        cause = rendezvous.cause_of(results)
        # If a rank dies, the other ranks raise HorovodInternalError, perhaps before the task of the
        # dead rank reports the death. The dead rank is the cause.
        dead = [failure for failure in self._failures if failure.rank not in results]
        if cause and not (dead and isinstance(cause[1].error, HorovodInternalError)):
            rank, result = cause
            raise RuntimeError(
                f"one or more processes exited with non-zero status, because rank {rank} on host "
                f"{self._hosts[rank]} raised an exception:\n{result.traceback}"
            ) from result.error
        for failure in dead or self._failures:
            raise RuntimeError(f"one or more processes exited with non-zero status. {failure.what}")
        if self._job.error is not None:
            raise RuntimeError(self._job_failure()) from self._job.error
        return rendezvous.values_of(results, self._size)

    def _job_failure(self) -> str:
        return f"Spark job has failed, or was cancelled: {reason_of(str(self._job.error))}"


def reason_of(error: str) -> str:
    """The most useful line of Spark's error report."""
    # The exception of a task, at the end of its traceback.
    in_task = re.findall(r"^\w+(?:Error|Exception): .*", error, re.MULTILINE)
    if in_task:
        module = re.search(r"No module named '(horovod[^']*)'", in_task[-1])
        remedy = "; install horovod on the executors, as on the driver" if module else ""
        return f"{in_task[-1]}{remedy}"
    lines = error.strip().splitlines() or [""]
    for word in ("ExecutorLostFailure", "Exception", "failure"):
        found = [line for line in lines if word in line]
        if found:
            return found[0].lstrip(": ")
    return lines[0]
