# SPDX-License-Identifier: Apache-2.0
"""horovod.run: runs a function on several ranks, from a script or a notebook.

cloudpickle serializes the function and the results, which pass through a rendezvous server in this
process. The server refuses clients that do not have the secret of the run.
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
    """Call func(*args, **kwargs) on `num_proc` ranks and return the results in order of ranks.

    func, args, kwargs: cloudpickle must be able to pickle them; else ValueError names the part.
    num_proc: number of ranks. np, min_np and max_np are deprecated names.
    executable: the Python interpreter of the ranks; by default that of this process.
    network_interfaces: names of the interfaces that ranks may use. network_interface is its
        deprecated form, a text with commas.
    The other arguments are flags of horovodrun with the same meaning (docs/horovodrun.md).

    Raises RuntimeError if a rank raises an exception, which ends the job. The message names the
    rank and contains the traceback; `__cause__` is the exception of the rank. Raises ValueError for
    arguments that exclude each other.
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
    # Imported late: Python warns of `-m horovod.runner.launch` if the package imports the module.
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
        except BaseException:  # mostly Ctrl-C: the launcher ends its ranks
            process.terminate()
            process.wait()
            raise


@contextlib.contextmanager
def _output(name: str, stream: TextIO, by_mpirun: bool) -> Iterator[int | None]:
    """The file descriptor for an output of the launcher; None to inherit this process's own.

    A notebook's stream has no descriptor, so a pipe and a thread write to it.

    by_mpirun: mpirun shows the output of a rank in pieces, mixed with pieces of other ranks. The
        thread joins the pieces of each rank to lines.
    """
    if not by_mpirun and _is_file(stream, _DESCRIPTORS[name]):
        yield None
        return
    reading, writing = os.pipe()

    def pump() -> None:
        # newline="" keeps the ends of lines: a carriage return moves a progress bar.
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
