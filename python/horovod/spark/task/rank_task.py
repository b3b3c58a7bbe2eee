# SPDX-License-Identifier: Apache-2.0
"""The body of a Spark task: reports its location, receives its rank, and runs the rank's process.

The rank is a process of its own, because Spark reuses Python workers: the environment and the
threads of one run would remain in the next. With mpirun, the first task of a host runs mpirun's
daemon instead. The daemon starts the ranks of that host, and the other tasks of the host wait until
mpirun has ended.
"""

from __future__ import annotations

import os
import re
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, Callable

from horovod.runner import rendezvous
from horovod.runner.common.util import guardian
from horovod.runner.common.util.host_hash import host_hash
from horovod.spark import protocol
from horovod.spark.task import executor_log

PIECE = 64 << 10  # bytes of one OutputPiece; small enough to appear soon
WAIT_SECONDS = 60.0  # for one answer of the rendezvous server; then the task asks again


def run(task_settings: protocol.TaskSettings, index: int, _: Iterator[Any]) -> Iterator[int]:
    """Body of Spark task `index`. Yields its rank. The rows of its partition are ignored."""
    from pyspark import TaskContext

    context = TaskContext.get()
    resources = context.resources()
    location = protocol.TaskLocation(
        host_hash(),
        socket.gethostname(),
        context.attemptNumber(),
        tuple(resources["gpu"].addresses) if "gpu" in resources else (),
    )
    client = task_settings.connect()
    if location.attempt > 0:  # the first attempt and its rank were lost
        lost = f"task {index} and its rank were lost"
        client.append(protocol.FAILED, protocol.Failure(lost))
        raise RuntimeError(f"{lost}; Horovod cannot restart a task of a run")
    client.put(protocol.LOCATION.format(index), location)
    there, assignment = client.get(protocol.ASSIGNMENT.format(index), task_settings.start_seconds)
    if not there:
        raise RuntimeError(
            f"task {index} did not receive its rank within {task_settings.start_seconds:g} s"
        )
    if not task_settings.uses_mpi:
        ended = _run_rank(task_settings, client, assignment)
        if ended:
            what = f"Process name: {assignment.rank}, Host: {location.name}, it ended {ended}"
            client.append(protocol.FAILED, protocol.Failure(what, assignment.rank))
    elif assignment.local_rank == 0:
        _run_for_mpirun(task_settings, client, assignment.host)
    else:
        while not client.get(protocol.OVER, WAIT_SECONDS)[0]:
            pass  # get() raises an exception when the driver ends
    yield assignment.rank


def _environment(task_settings: protocol.TaskSettings) -> dict[str, str]:
    """The environment of a rank, without its rank assignment."""
    merged: dict[str, str | None] = {**os.environ, **task_settings.environment}
    environment = {name: value for name, value in merged.items() if value is not None}
    return {
        **environment,
        "HOROVOD_RENDEZVOUS": task_settings.addresses,
        "_HOROVOD_SECRET_KEY": task_settings.secret,
        "HOROVOD_TLS": str(int(task_settings.tls)),
        **({protocol.SENDS_MESSAGES: "1"} if task_settings.wants_messages else {}),
        rendezvous.PORT: task_settings.addresses.rpartition(":")[2],
        rendezvous.SECRET: task_settings.secret,
        "PYTHONPATH": os.pathsep.join(
            [*filter(None, [environment.get("PYTHONPATH")]), *_paths_of_the_job()]
        ),
    }


def _paths_of_the_job() -> list[str]:
    """The folders of modules that were sent with the Spark job.

    They do not include the folders of this Python interpreter: the rank may run with another one.
    """
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    own = re.compile(rf"({'|'.join(map(re.escape, folders))})(/.*)?|.*/python\d+\.zip")
    return [path for path in sys.path if path and not own.fullmatch(path)]


def _run_rank(
    task_settings: protocol.TaskSettings,
    client: rendezvous.RendezvousClient,
    assignment: protocol.RankAssignment,
) -> str:
    """Run the process of a rank. Returns how it ended, or "" if it succeeded."""
    process = subprocess.Popen(
        [
            *guardian.command(guardian.ALWAYS, 0),
            task_settings.executable or sys.executable,
            *("-m", "horovod.runner.run_task"),
        ],
        env={**_environment(task_settings), **assignment.environment()},
        stdin=subprocess.PIPE,  # closes when this process ends, even by a kill
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    threads = []
    for name, stream in (
        (protocol.STDOUT, process.stdout),
        (protocol.STDERR, process.stderr),
    ):
        outlets: list[Callable[[bytes], None]] = []
        if name in task_settings.logged:
            outlets.append(executor_log.Log().add)
        if name in task_settings.sent:
            outlets.append(_send_to_driver(task_settings.connect(), assignment.rank, name))
        thread = threading.Thread(
            target=_forward,
            args=(stream, assignment.rank, outlets),
            name=f"horovod-rank-{name}",
        )
        thread.start()
        threads.append(thread)
    code = process.wait()
    for thread in threads:
        thread.join()
    return _ending_of(code) if code else ""


def _ending_of(code: int) -> str:
    # The guardian returns 128 + signal, or is killed itself.
    number = -code if code < 0 else code - 128
    if number in set(signal.Signals):
        return f"by signal {signal.Signals(number).name}"
    return f"with exit code {code}"


def _send_to_driver(
    client: rendezvous.RendezvousClient, rank: int, stream: str
) -> Callable[[bytes], None]:
    """A function that sends output to the driver."""

    def send(data: bytes) -> None:
        if data:
            client.append(protocol.OUTPUT, protocol.OutputPiece(rank, stream, data))

    return send


def _forward(stream: BinaryIO, rank: int, outlets: list[Callable[[bytes], None]]) -> None:
    """Pass the output of a rank to all outlets, and b"" at the end.

    An outlet is a function that takes bytes. If one fails, it gets no more output, but the function
    reads on: a rank would block if its pipe were full.
    """
    data = None
    while data != b"":
        data = stream.read1(PIECE)  # type: ignore[attr-defined]
        for outlet in list(outlets):
            try:
                outlet(data)
            except Exception as error:
                outlets.remove(outlet)
                print(f"the output of rank {rank} is lost from here on: {error}", file=sys.stderr)


def _run_for_mpirun(
    task_settings: protocol.TaskSettings, client: rendezvous.RendezvousClient, host: str
) -> None:
    """Run the command of mpirun for this host, and send its result."""
    there, command = client.get(protocol.COMMAND.format(host), task_settings.start_seconds)
    if not there:
        raise RuntimeError(f"mpirun sent no command within {task_settings.start_seconds:g} s")
    from pyspark import SparkFiles

    process = subprocess.Popen(
        [*guardian.command(guardian.ALWAYS, 0), "/bin/sh", "-c", command],
        env={
            **_environment(task_settings),
            protocol.PYTHON: task_settings.executable or sys.executable,
            protocol.FOLDER: os.getcwd(),
            # Spark removes this folder, and with it the files of a killed daemon.
            "OMPI_MCA_orte_tmpdir_base": os.path.abspath(SparkFiles.getRootDirectory()),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,  # of the daemon only: mpirun shows the output of the ranks
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = process.stdout.read().decode(errors="replace")
    client.put(protocol.COMMAND_RESULT.format(host), protocol.CommandResult(process.wait(), output))
