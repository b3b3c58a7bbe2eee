# SPDX-License-Identifier: Apache-2.0
"""Simulates hosts on one machine: a network namespace per host, joined by veth pairs and a bridge.

Needs root and the commands ip and tc.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator

CLONE_NEWNET = 0x40000000


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def why_not() -> str | None:
    """Why a Network cannot be made here, or None. Entering one may still raise OSError."""
    for command in ("ip", "tc"):
        if shutil.which(command) is None:
            return f"no command {command} (Debian package iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    return None


def enter(space: int) -> None:
    """Moves the calling thread, and processes that it starts later, into a network namespace."""
    if ctypes.CDLL(None, use_errno=True).setns(space, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


class Network:
    """Hosts 0 to n-1 with the addresses 10.77.0.1 and so on, behind one bridge.

    Leaving the context kills the processes that were started in it.
    """

    def __init__(self, hosts: int):
        self.name = f"hvd{os.getpid()}-{secrets.token_hex(2)}"
        self.hosts = hosts
        self.processes: list[subprocess.Popen] = []
        self.spaces: list[str] = []

    def __enter__(self):
        try:
            self._build()
        except OSError as error:
            self.__exit__()
            raise OSError(f"network namespaces are not permitted here: {error}") from error
        return self

    def _build(self):
        bridge = self._add_space("bridge")
        run("ip", "-n", bridge, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", bridge, "link", "set", "br0", "up")
        for host in range(self.hosts):
            space = self._add_space(str(host))
            port = f"port{host}"
            run(
                *("ip", "-n", space, "link", "add", "wire", "type", "veth"),
                *("peer", "name", port, "netns", bridge),
            )
            run("ip", "-n", bridge, "link", "set", port, "master", "br0", "up")
            run("ip", "-n", space, "address", "add", f"{self.address(host)}/24", "dev", "wire")
            run("ip", "-n", space, "link", "set", "wire", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")

    def _add_space(self, suffix: str) -> str:
        space = f"{self.name}-{suffix}"
        run("ip", "netns", "add", space)
        self.spaces.append(space)
        return space

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()
        for space in self.spaces:
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)

    def address(self, host: int) -> str:
        return f"10.77.0.{host + 1}"

    def limit_rate(self, mbit: int) -> None:
        """Limits the sending rate of each host."""
        for host in range(self.hosts):
            run(
                *("tc", "-n", f"{self.name}-{host}", "qdisc", "add", "dev", "wire", "root"),
                *("tbf", "rate", f"{mbit}mbit", "burst", "2mb", "latency", "50ms"),
            )

    @contextlib.contextmanager
    def inside(self, host: int) -> Iterator[None]:
        """Within the context, the calling thread and processes that it starts are on this host."""
        with (
            open("/proc/thread-self/ns/net") as outside,
            open(f"/run/netns/{self.name}-{host}") as space,
        ):
            enter(space.fileno())
            try:
                yield
            finally:
                enter(outside.fileno())

    def start(self, host: int, command: list[str], env: dict[str, str]) -> subprocess.Popen:
        process = subprocess.Popen(
            ["ip", "netns", "exec", f"{self.name}-{host}", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        self.processes.append(process)
        return process
