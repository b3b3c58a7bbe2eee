# SPDX-License-Identifier: Apache-2.0
"""Lets mpirun start the ranks: a job of Open MPI whose hosts are executors.

mpirun reaches the executors through the module `remote_shell`, which passes the command of mpirun's
daemon to the first task of the host. The daemon starts the ranks there and forwards their output.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import threading

from horovod.runner import mpi_run
from horovod.runner.common.util import safe_shell_exec
from horovod.runner.options import OutputStreams, RunOptions
from horovod.runner.output import Lines, Untagged
from horovod.spark import protocol

REMEDY = "or leave use_mpi out: ranks need no MPI"
_REMOTE_SHELL = "horovod.spark.remote_shell"
# The executor's variables choose interpreter and folder, because those of the driver may differ.
_RANK = f'cd "${protocol.FOLDER}" && exec "${protocol.PYTHON}" -m horovod.spark.task.mpi_rank'


def check() -> None:
    """Raise RuntimeError unless the driver has an mpirun of Open MPI 4."""
    text = mpi_run.version_text()
    if text is None:
        raise RuntimeError(f"use_mpi needs mpirun on the driver: install Open MPI 4, {REMEDY}")
    version = re.search(r"Open MPI\) (\d+)", text)
    if version is None or version.group(1) != "4":
        first = text.strip().splitlines()[0] if text.strip() else "one that reports no version"
        raise RuntimeError(
            f"use_mpi needs an mpirun of Open MPI 4, and the one of the driver is {first}: "
            f"install that, {REMEDY}"
        )


def arguments(options: RunOptions) -> list[str]:
    """The arguments of mpirun that the caller asks for."""
    interfaces = ",".join(options.network_interfaces)
    chosen = ["-mca", "btl_tcp_if_include", interfaces] if options.network_interfaces else []
    return [*chosen, *shlex.split(options.mpi_args or "")]


def command(assignments: list[protocol.RankAssignment], more: list[str]) -> list[str]:
    """The command line of mpirun.

    assignments: in order of ranks. more: further arguments of mpirun.
    """
    hosts = {assignment.host: assignment.local_size for assignment in assignments}
    agent = f"{sys.executable} -m {_REMOTE_SHELL}"
    return [
        *("mpirun", "--allow-run-as-root", "--tag-output"),
        *("-np", str(len(assignments))),
        *("-H", ",".join(f"{host}:{slots}" for host, slots in hosts.items())),
        *("-bind-to", "none", "-map-by", "slot"),
        *("-mca", "pml", "ob1", "-mca", "btl", "^openib"),
        *("-mca", "plm", "rsh", "-mca", "plm_rsh_agent", agent),
        # mpirun starts all daemons itself, because the executors do not have this remote shell. It
        # starts all of them at the same time.
        *("-mca", "plm_rsh_no_tree_spawn", "true"),
        *("-mca", "plm_rsh_num_concurrent", str(len(hosts))),
        # Daemons stay in the foreground, so that their tasks see them end.
        *("-mca", "orte_leave_session_attached", "true"),
        *more,
        *("/bin/sh", "-c", _RANK),
    ]


class Mpirun:
    """Runs mpirun in a thread while the body of the context runs. Leaving the context ends mpirun.

    task_settings: with an address that is valid on the driver.
    """

    def __init__(
        self,
        words: list[str],
        task_settings: protocol.TaskSettings,
        streams: OutputStreams,
    ) -> None:
        self._words = words
        self._task_settings = task_settings
        self._stdout = Lines(streams.stdout or sys.stdout, "stdout", streams.with_time)
        self._stderr = Lines(streams.stderr or sys.stderr, "stderr", streams.with_time)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="horovod-spark-mpirun", daemon=True)

    def _run(self) -> None:
        try:
            # Each run has its own folder: a killed mpirun leaves its files, and runs that share a
            # folder disturb each other.
            with tempfile.TemporaryDirectory(prefix="horovod-mpirun-") as folder:
                code = self._run_in(folder)
            failed = f"mpirun failed with exit code {code}" if code else ""
        except Exception as error:
            failed = f"mpirun could not be run: {error}"
        if self._stop.is_set():
            return
        client = self._task_settings.connect()
        if failed:
            client.append(protocol.FAILED, protocol.Failure(failed))
        client.put(protocol.OVER, True)

    def _run_in(self, folder: str) -> int:
        environment = {
            **os.environ,
            "TMPDIR": folder,
            protocol.RENDEZVOUS: self._task_settings.addresses,
            protocol.SECRET: self._task_settings.secret,
            "HOROVOD_TLS": str(int(self._task_settings.tls)),
            # The remote shell runs with this Python.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        code = safe_shell_exec.execute(
            self._words,
            environment,
            stdout=Untagged(self._stdout),
            stderr=Untagged(self._stderr),
            events=[self._stop],
        )
        self._stdout.finish()
        self._stderr.finish()
        return code

    def __enter__(self) -> Mpirun:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()  # the guardian ends mpirun within seconds
