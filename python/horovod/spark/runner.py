# SPDX-License-Identifier: Apache-2.0
"""The driver's part: starts the tasks, gives them ranks, waits, and brings back results."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import re
import shlex
import sys
import time
from typing import Any, Callable, TextIO

from horovod.common import settings
from horovod.common.exceptions import HorovodInternalError
from horovod.runner import call, rendezvous
from horovod.runner.output import is_interactive
from horovod.spark import cluster, mpirun, output, protocol
from horovod.spark.task import rank_task

_log = logging.getLogger("horovod.spark")

TELL_SECONDS = 10.0  # how often to say that tasks are missing
LOOK_SECONDS = 0.2  # how often to look whether the Spark job has ended
END_SECONDS = 5.0  # for ranks to hear of the failure of another and end by themselves


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
    """Call fn(*args, **kwargs) on `num_proc` ranks, each in a task of Spark; results by rank.

    num_proc: by default as many as Spark has task slots, which depend on spark.task.cpus and on
        GPUs per task; at most spark.default.parallelism, if that is set.
    start_timeout: seconds until all tasks have to be there; HOROVOD_SPARK_START_TIMEOUT, or 600.
    use_mpi: have mpirun start the ranks, with `extra_mpi_args`; it shows what they write. Without
        it, or with use_gloo, tasks do that.
    env: variables of the ranks besides those of the executors; None unsets one.
    stdout, stderr: where to write what ranks say, each line with its rank; by default it is in the
        logs of the executors. A shell or notebook shows standard output as well, without ranks.
    verbose: 0 does not say how many processes run.
    nics: the network interfaces that ranks may use.
    prefix_output_with_timestamp: begins each line with the time.
    executable: the Python of the ranks; by default that of the executors.
    """
    nics = nics.split(",") if isinstance(nics, str) else nics
    if use_mpi and use_gloo:
        raise ValueError("use_gloo and use_mpi exclude each other; pass one of them")
    if extra_mpi_args and not use_mpi:
        raise ValueError("extra_mpi_args are for mpirun; pass use_mpi=True, or leave them out")
    as_is = stdout is None and is_interactive()
    return run_ranks(
        fn,
        args,
        kwargs or {},
        num_proc,
        start_timeout,
        env={**(env or {}), **({"HOROVOD_NETWORK_INTERFACES": ",".join(nics)} if nics else {})},
        streams={1: sys.stdout if as_is else stdout, 2: stderr, protocol.MESSAGES: None},
        as_is=as_is,
        verbose=verbose,
        with_time=prefix_output_with_timestamp,
        executable=executable,
        mpi_args=_mpi_arguments(nics, extra_mpi_args) if use_mpi else None,
    )


def _mpi_arguments(nics: list[str] | None, extra: str | None) -> list[str]:
    interfaces = ["-mca", "btl_tcp_if_include", ",".join(nics)] if nics else []
    return [*interfaces, *shlex.split(extra or "")]


def run_ranks(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    num_proc: int | None,
    start_seconds: float | None = None,
    *,
    env: dict[str, str | None],
    streams: dict[int, TextIO | None],
    as_is: bool = False,
    verbose: int = 1,
    with_time: bool = False,
    executable: str | None = None,
    mpi_args: list[str] | None = None,
) -> list[Any]:
    """As run(). `streams` are the caller's for what ranks write, and for their messages.

    as_is: lines of standard output have no labels, and are in the logs of the executors, too.
    mpi_args: more of them for mpirun, which then starts the ranks.
    """
    packed = call.pack(fn, args, kwargs)
    if mpi_args is not None:
        mpirun.check()
    spark = cluster.active()
    if start_seconds is None:
        start_seconds = settings.number("HOROVOD_SPARK_START_TIMEOUT")
    deadline = time.monotonic() + start_seconds
    if num_proc is None:
        num_proc = spark.default_size(deadline)
    if num_proc <= 0:
        raise ValueError(f"num_proc has to be above 0, not {num_proc}")
    if verbose >= 1:
        print(f"Running {num_proc} processes...", file=sys.stderr, flush=True)
    spark.check_slots(num_proc, deadline)

    sent = tuple(number for number in (1, 2) if streams[number] is not None)
    logged = tuple({1, 2}.difference(sent))
    # The log of a Spark inside this process is where the shell shows standard output.
    if as_is and not spark.is_in_driver():
        logged = (1, 2)
    tls = rendezvous.uses_tls({**os.environ, **env})
    with rendezvous.RendezvousServer(is_local=False, tls=tls) as server:
        server.send_pickled("func", packed)
        task_settings = protocol.TaskSettings(
            addresses=f"{spark.address()}:{server.port}",
            secret=server.secret,
            tls=tls,
            start_seconds=start_seconds,
            environment=env,
            executable=executable,
            sent=sent,
            logged=logged,
            wants_messages=mpi_args is None and streams[protocol.MESSAGES] is not None,
            uses_mpi=mpi_args is not None,
        )
        # The address that executors have may be one that only they can reach.
        here = dataclasses.replace(task_settings, addresses=f"127.0.0.1:{server.port}")
        with cluster.SparkJob(
            spark, num_proc, functools.partial(rank_task.run, task_settings)
        ) as job:
            ranks = _Ranks(server, job, num_proc)
            assignments = ranks.assign_ranks(deadline)
            if mpi_args is None:
                labels = {**output.LABELS, 1: ""} if as_is else output.LABELS
                with output.shown(here, streams, labels, with_time):
                    return ranks.results()
            else:
                server.send(protocol.ASSIGNMENTS, assignments)
                words = mpirun.command(assignments, mpi_args)
                with mpirun.Mpirun(words, here, streams, with_time):
                    return ranks.results()


class _Ranks:
    """Those of one run, from the location of their tasks to their results."""

    def __init__(
        self, server: rendezvous.RendezvousServer, job: cluster.SparkJob, size: int
    ) -> None:
        self._server = server
        self._job = job
        self._size = size
        self._hosts: dict[int, str] = {}
        self._failures: list[protocol.Failure] = []

    def assign_ranks(self, deadline: float) -> list[protocol.RankAssignment]:
        """Wait for the tasks, and tell each of them its rank; assignments by rank."""
        told = time.monotonic()
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
                    f"{self._arrived()} of {self._size} are there. Check that Spark has enough "
                    "resources for all of them at once, that executors can reach the driver, or "
                    "pass a larger start_timeout (HOROVOD_SPARK_START_TIMEOUT)"
                )
            elif time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                _log.warning(
                    "%d of %d tasks of Spark are there; the others wait for free task slots, for "
                    "executors to start, or to reach the driver, for another %.0f s",
                    self._arrived(),
                    self._size,
                    deadline - told,
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
        """Until the job has ended; a rank that fails ends the others."""
        deadline = float("inf")
        while not self._job.has_ended() and time.monotonic() < deadline:
            if self._hear_of_failure(LOOK_SECONDS) and deadline == float("inf"):
                deadline = time.monotonic() + END_SECONDS

    def _hear_of_failure(self, seconds: float) -> bool:
        there, failure = self._server.take(protocol.FAILED, len(self._failures), seconds)
        if there:
            self._failures.append(failure)
        return there

    def results(self) -> list[Any]:
        """Wait for them; by rank."""
        self._wait()
        while self._hear_of_failure(0):
            pass
        results = self._server.results()
        cause = rendezvous.cause_of(results)
        # Of a rank that died the others hear as of one they have lost, and may be faster to tell.
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
    """The line of Spark's report that says most."""
    # That of an exception in a task, at the end of its traceback.
    in_task = re.findall(r"^\w+(?:Error|Exception): .*", error, re.MULTILINE)
    if in_task:
        module = re.search(r"No module named '(horovod[^']*)'", in_task[-1])
        remedy = "; install horovod on the executors, as on the driver" if module else ""
        return f"{in_task[-1]}{remedy}"
    lines = error.strip().splitlines() or [""]
    for word in ("ExecutorLostFailure", "Exception", "failure"):
        told = [line for line in lines if word in line]
        if told:
            return told[0].lstrip(": ")
    return lines[0]
