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
from horovod.runner.options import HorovodrunOptions

__all__ = ["run"]

_DESCRIPTORS = {"stdout": 1, "stderr": 2}


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
    options = HorovodrunOptions(
        num_proc=num_proc,
        min_num_proc=min_num_proc,
        max_num_proc=max_num_proc,
        slots=slots,
        reset_limit=reset_limit,
        cooldown_range=cooldown_range,
        hosts=hosts,
        hostfile=hostfile,
        host_discovery_script=host_discovery_script,
        start_timeout=start_timeout,
        ssh_port=ssh_port,
        ssh_identity_file=ssh_identity_file,
        disable_cache=disable_cache,
        output_filename=output_filename,
        verbose=verbose or 0,
        use_gloo=use_gloo,
        use_mpi=use_mpi,
        mpi_args=mpi_args,
        network_interfaces=network_interfaces or (),
        executable=executable,
    )
    return _run(call.pack(func, args, kwargs or {}), options)


def _run(packed: bytes, options: HorovodrunOptions) -> list[Any]:
    # Here, because Python warns of `-m horovod.runner.launch` when it is imported already.
    from horovod.runner import launch

    python = options.executable or sys.executable
    command = [launch.horovodrun_path(), *options.flags(), python, "-m", "horovod.runner.run_task"]
    with rendezvous.RendezvousServer(options.is_local()) as server:
        server.send_pickled("func", packed)
        environment = os.environ | server.environment()
        status = _run_to_the_end(command, environment, bool(options.use_mpi))
        results = server.results()
    expected = options.num_proc if options.min_num_proc is None else options.min_num_proc
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
        _output("stdout", sys.stdout, by_mpirun) as stdout,
        _output("stderr", sys.stderr, by_mpirun) as stderr,
    ):
        process = subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr)
        try:
            return process.wait()
        except BaseException:  # Ctrl-C above all: the launcher ends its ranks
            process.terminate()
            process.wait()
            raise


@contextlib.contextmanager
def _output(name: str, stream: TextIO, by_mpirun: bool) -> Iterator[int | None]:
    """Where the launcher is to write: the same stream, also in a notebook, which has no file.

    by_mpirun: puts together what mpirun shows in pieces, with those of other ranks in between.
    """
    if not by_mpirun and _is_file(stream, _DESCRIPTORS[name]):
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
            lines = output.Lines(stream, name, job="1,")
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


def _is_file(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (AttributeError, OSError, ValueError):
        return False
