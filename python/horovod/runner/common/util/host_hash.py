# SPDX-License-Identifier: Apache-2.0
"""Which processes are on one host."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import socket


def host_hash(salt: str | None = None) -> str:
    """A text that processes of one host have in common, and containers on it have not.

    salt: makes hosts out of processes that are to be taken for such.
    """
    name = socket.gethostname()
    # What ranks tell hosts apart by, too: they share memory where all of it is the same. Not even
    # 127.0.0.1 is the same in two network namespaces, which may have one name otherwise.
    parts = [name, salt or ""]
    with contextlib.suppress(OSError):
        parts.append(pathlib.Path("/proc/sys/kernel/random/boot_id").read_text())
    with contextlib.suppress(OSError):
        parts.append(str(os.stat("/dev/shm").st_dev))
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/net"))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{name.split('.')[0]}-{digest[:32]}"
