# SPDX-License-Identifier: Apache-2.0
"""Short commands and their output."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping


def execute(command: str, env: Mapping[str, str] | None = None) -> tuple[str, int] | None:
    """Run a shell command. Returns its output (with errors) and exit code; None without a shell."""
    try:
        done = subprocess.run(
            command,
            shell=True,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError:
        return None
    return done.stdout, done.returncode
