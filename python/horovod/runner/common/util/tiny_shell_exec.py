# SPDX-License-Identifier: Apache-2.0
"""Short commands and what they say."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping


def execute(command: str, env: Mapping[str, str] | None = None) -> tuple[str, int] | None:
    """Output, errors included, and exit code of a shell command; None if there is no shell."""
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
