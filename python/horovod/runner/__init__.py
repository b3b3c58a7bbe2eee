# SPDX-License-Identifier: Apache-2.0
"""horovod.run: a function on several ranks, from a script or a notebook.

The function and the results travel by cloudpickle through a rendezvous server in this process.
A client that does not know the secret of this run is refused.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Callable, TextIO

from horovod.runner import call, output, rendezvous

__all__ = ["run"]


def _deprecated(new: Any, old: Any, new_name: str, old_name: str) -> Any:
    if old is None:
        return new
    warnings.warn(
        f"the parameter {old_name} is deprecated; pass {new_name}=",
        DeprecationWarning,
        stacklevel=3,
    )
    return old


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    num_proc: int = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[int] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: int | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: Sequence[str] | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Call func(*args, **kwargs) on `num_proc` ranks and return the results by rank.

    The remaining arguments are those of horovodrun. An exception of a rank ends the job; it comes
    back as the cause of a RuntimeError that says which rank it was and where.
    """
    num_proc = _deprecated(num_proc, np, "num_proc", "np")
    min_num_proc = _deprecated(min_num_proc, min_np, "min_num_proc", "min_np")
    max_num_proc = _deprecated(max_num_proc, max_np, "max_num_proc", "max_np")
    if network_interface is not None:
        given = _deprecated(None, network_interface, "network_interfaces", "network_interface")
        network_interfaces = [*(network_interfaces or []), *given.split(",")]
    if hosts is not None and hostfile is not None:
        raise ValueError("hosts and hostfile exclude each other; pass one of them")
    if use_gloo and use_mpi:
        raise ValueError("use_gloo and use_mpi exclude each other; pass one of them")
    packed = call.pack(func, args, kwargs or {})

    flags: dict[str, Any] = {
        "--num-proc": num_proc,
        "--min-num-proc": min_num_proc,
        "--max-num-proc": max_num_proc,
        "--slots-per-host": slots,
        "--reset-limit": reset_limit,
        "--hosts": hosts,
        "--hostfile": hostfile,
        "--host-discovery-script": host_discovery_script,
        "--start-timeout": start_timeout,
        "--ssh-port": ssh_port,
        "--ssh-identity-file": ssh_identity_file,
        "--output-filename": output_filename,
        "--network-interfaces": ",".join(network_interfaces) if network_interfaces else None,
    }
    # Here, because Python warns of `-m horovod.runner.launch` when it is imported already.
    from horovod.runner import launch

    command = [launch.horovodrun_path()]
    for flag, value in flags.items():
        if value is not None:
            command += [flag, str(value)]
    if cooldown_range is not None:
        command += ["--blacklist-cooldown-range", *map(str, cooldown_range)]
    if mpi_args is not None:
        command.append(f"--mpi-args={mpi_args}")
    for flag, wanted in {
        "--disable-cache": disable_cache,
        "--verbose": verbose,
        "--gloo": use_gloo,
        "--mpi": use_mpi,
    }.items():
        if wanted:
            command.append(flag)
    command += [executable or sys.executable, "-m", "horovod.runner.run_task"]

    is_local = hosts is None and hostfile is None and host_discovery_script is None
    with rendezvous.RendezvousServer(is_local) as server:
        server.send_pickled("func", packed)
        status = _run_to_the_end(command, os.environ | server.settings(), bool(use_mpi))
        results = server.results()
    expected = num_proc if min_num_proc is None else min_num_proc
    return _take_results(results, expected, status)


def _take_results(results: dict[int, rendezvous.Result], expected: int, status: int) -> list[Any]:
    cause = rendezvous.cause_of(results)
    if cause is not None:
        rank, result = cause
        raise RuntimeError(
            f"one or more processes exited with non-zero status, because rank {rank} raised an "
            f"exception:\n{result.traceback}"
        ) from result.error
    if status != 0:
        raise RuntimeError(
            f"one or more processes exited with non-zero status; horovodrun ended with {status}"
        )
    return rendezvous.values_of(results, expected)


def _run_to_the_end(command: list[str], environment: dict[str, str], by_mpirun: bool) -> int:
    with (
        _output(sys.stdout, 1, by_mpirun) as stdout,
        _output(sys.stderr, 2, by_mpirun) as stderr,
    ):
        process = subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr)
        try:
            return process.wait()
        except BaseException:  # Ctrl-C above all: the launcher ends its ranks
            process.terminate()
            process.wait()
            raise


@contextlib.contextmanager
def _output(stream: TextIO, number: int, by_mpirun: bool) -> Iterator[int | None]:
    """Where the launcher is to write: the same stream, also in a notebook, which has no file.

    by_mpirun: puts together what mpirun shows in pieces, with those of other ranks in between.
    """
    if not by_mpirun and _is_file(stream, number):
        yield None
        return
    reading, writing = os.pipe()

    def pump() -> None:
        # The ends of lines stay as they are: a carriage return moves a progress bar.
        with open(reading, encoding="utf-8", errors="replace", newline="") as pipe:
            if not by_mpirun:
                for line in pipe:
                    stream.write(line)
                return
            lines = output.Lines(stream, {1: "stdout", 2: "stderr"}[number], job="1,")
            untagged = output.Untagged(lines)
            for line in pipe:
                untagged.write(line)
            lines.finish()

    thread = threading.Thread(target=pump, name="horovod-output", daemon=True)
    thread.start()
    try:
        yield writing
    finally:
        os.close(writing)
        thread.join()


def _is_file(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (AttributeError, OSError, ValueError):
        return False
