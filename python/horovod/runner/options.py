# SPDX-License-Identifier: Apache-2.0
"""The options of one run of horovod.run or horovod.spark.run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TextIO


@dataclasses.dataclass(frozen=True)
class OutputStreams:
    """The caller's streams for the output of the ranks. None: the run does not show that output.

    stdout, stderr: receive the output of the ranks, each line with a label that names its rank.
    messages: receives the texts that ranks send by sparkdl.horovod.log_to_driver, without labels.
    plain_stdout: lines of standard output have no labels, and are in the executors' logs too.
    with_time: each label starts with the time.
    """

    stdout: TextIO | None = None
    stderr: TextIO | None = None
    messages: TextIO | None = None
    plain_stdout: bool = False
    with_time: bool = False

    def by_name(self) -> dict[str, TextIO]:
        """The streams that are set, by the names of their fields."""
        streams = {"stdout": self.stdout, "stderr": self.stderr, "messages": self.messages}
        return {name: stream for name, stream in streams.items() if stream is not None}


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Options that every kind of run has.

    num_proc: number of ranks; None lets the run choose.
    start_timeout: seconds until all ranks must have started; None for the setting's value.
    use_mpi: mpirun starts the ranks, with `mpi_args`. use_gloo: mpirun does not start them.
    network_interfaces: names of the interfaces that ranks may use; empty for all.
    executable: the Python interpreter of the ranks; None for the default of the run.
    verbose: 0 hides progress messages.
    environment: variables of the ranks, in addition to their own; None unsets one.
    output: where the output of the ranks is shown.

    Raises ValueError for options that exclude each other.
    """

    num_proc: int | None = None
    start_timeout: float | None = None
    use_mpi: bool | None = None
    use_gloo: bool | None = None
    mpi_args: str | None = None
    network_interfaces: Sequence[str] = ()
    executable: str | None = None
    verbose: int = 1
    environment: Mapping[str, str | None] = dataclasses.field(default_factory=dict, repr=False)
    output: OutputStreams = OutputStreams()

    def __post_init__(self) -> None:
        if self.use_mpi and self.use_gloo:
            raise ValueError("use_gloo and use_mpi exclude each other; pass one of them")


@dataclasses.dataclass(frozen=True)
class HorovodrunOptions(RunOptions):
    """Options of a run that horovodrun starts; each field is the flag of that name.

    slots is --slots-per-host, and cooldown_range is --blacklist-cooldown-range.
    """

    min_num_proc: int | None = None
    max_num_proc: int | None = None
    slots: int | None = None
    reset_limit: int | None = None
    cooldown_range: Sequence[int] | None = None
    hosts: str | None = None
    hostfile: str | None = None
    host_discovery_script: str | None = None
    ssh_port: int | None = None
    ssh_identity_file: str | None = None
    disable_cache: bool | None = None
    output_filename: str | None = None

    def __post_init__(self) -> None:
        if self.hosts is not None and self.hostfile is not None:
            raise ValueError("hosts and hostfile exclude each other; pass one of them")
        super().__post_init__()

    def is_local(self) -> bool:
        """Whether all ranks run on this host."""
        return self.hosts is None and self.hostfile is None and self.host_discovery_script is None

    def flags(self) -> list[str]:
        """The arguments of horovodrun, without the command of the ranks."""
        interfaces = ",".join(self.network_interfaces) if self.network_interfaces else None
        values = {
            "--num-proc": self.num_proc,
            "--min-num-proc": self.min_num_proc,
            "--max-num-proc": self.max_num_proc,
            "--slots-per-host": self.slots,
            "--reset-limit": self.reset_limit,
            "--hosts": self.hosts,
            "--hostfile": self.hostfile,
            "--host-discovery-script": self.host_discovery_script,
            "--start-timeout": self.start_timeout,
            "--ssh-port": self.ssh_port,
            "--ssh-identity-file": self.ssh_identity_file,
            "--output-filename": self.output_filename,
            "--network-interfaces": interfaces,
        }
        switches = {
            "--disable-cache": self.disable_cache,
            "--verbose": self.verbose,
            "--gloo": self.use_gloo,
            "--mpi": self.use_mpi,
        }
        flags: list[str] = []
        for flag, value in values.items():
            if value is not None:
                flags += [flag, str(value)]
        if self.cooldown_range is not None:
            flags += ["--blacklist-cooldown-range", *map(str, self.cooldown_range)]
        if self.mpi_args is not None:
            flags.append(f"--mpi-args={self.mpi_args}")
        return [*flags, *(switch for switch, is_on in switches.items() if is_on)]
