# SPDX-License-Identifier: Apache-2.0
"""Settings of a job, for launchers that are written in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from horovod.runner.common.util.timeout import Timeout


class BaseSettings:
    """Settings of every kind of job; each argument is an attribute.

    num_proc: number of processes.
    verbose: amount of messages, from 0 to 2.
    ssh_port, ssh_identity_file: for connections to other hosts.
    extra_mpi_args, tcp_flag, binding_args: for mpirun.
    key: the secret of the job.
    start_timeout: the time limit of the start.
    output_filename: a folder for the output of the processes.
    run_func_mode: whether the processes call a function instead of a command.
    nics: the names of the network interfaces to use; None for all.
    elastic: whether hosts may be added and removed.
    prefix_output_with_timestamp: whether lines of output start with the time.
    """

    def __init__(
        self,
        num_proc: int | None = None,
        verbose: int = 0,
        ssh_port: int | None = None,
        ssh_identity_file: str | None = None,
        extra_mpi_args: str | None = None,
        tcp_flag: bool | None = None,
        binding_args: str | None = None,
        key: bytes | None = None,
        start_timeout: Timeout | None = None,
        output_filename: str | None = None,
        run_func_mode: bool | None = None,
        nics: Iterable[str] | None = None,
        elastic: bool = False,
        prefix_output_with_timestamp: bool = False,
    ) -> None:
        self.num_proc = num_proc
        self.verbose = verbose
        self.ssh_port = ssh_port
        self.ssh_identity_file = ssh_identity_file
        self.extra_mpi_args = extra_mpi_args
        self.tcp_flag = tcp_flag
        self.binding_args = binding_args
        self.key = key
        self.start_timeout = start_timeout
        self.output_filename = output_filename
        self.run_func_mode = run_func_mode
        self.nics = nics
        self.elastic = elastic
        self.prefix_output_with_timestamp = prefix_output_with_timestamp


class Settings(BaseSettings):
    """Settings of a job on fixed hosts. hosts: a list such as "h1:2,h2:4"."""

    def __init__(self, hosts: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hosts = hosts
