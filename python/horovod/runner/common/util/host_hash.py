# SPDX-License-Identifier: Apache-2.0
"""An identifier of the host of a process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import socket


def host_hash(salt: str | None = None) -> str:
    """A text that is equal for processes on one host, and different in each container on it.

    salt: processes with different salts count as different hosts.
    """
    name = socket.gethostname()
    # Ranks compare HOROVOD_HOSTNAME, the boot id and the device of /dev/shm, and share memory if
    # all three are equal (core/transport/tcp/wire.cc). The hash also has the network namespace: two
    # namespaces may have the same host name, but not the same 127.0.0.1.
    parts = [name, salt or ""]
    with contextlib.suppress(OSError):
        parts.append(pathlib.Path("/proc/sys/kernel/random/boot_id").read_text())
    with contextlib.suppress(OSError):
        parts.append(str(os.stat("/dev/shm").st_dev))
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/net"))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{name.split('.')[0]}-{digest[:32]}"
