# SPDX-License-Identifier: Apache-2.0
"""horovodrun from Python: finds the native launcher and executes it."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence

from horovod.runner import js_run

__all__ = ["check_build", "horovodrun_path", "is_gloo_used", "run_commandline"]


def horovodrun_path() -> str:
    """The path of the launcher of this package, or of one on the PATH.

    Raises FileNotFoundError if there is none.
    """
    candidates = [os.path.join(sysconfig.get_path("scripts"), "horovodrun")]
    try:
        files = importlib.metadata.files("horovod") or []
        candidates[:0] = [str(file.locate()) for file in files if file.name == "horovodrun"]
    except importlib.metadata.PackageNotFoundError:
        pass
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return os.path.normpath(candidate)
    found = shutil.which("horovodrun")
    if found is None:
        raise FileNotFoundError(
            "no horovodrun was found next to this package or on the PATH; install horovod again"
        )
    return found


def run_commandline(arguments: Sequence[str] | None = None) -> None:
    """Replace this process by horovodrun; does not return.

    arguments: those of horovodrun; by default those of this process.
    """
    path = horovodrun_path()
    given = sys.argv[1:] if arguments is None else list(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(path, [path, *given])


def check_build(verbose: bool = False) -> None:
    """Print the available frameworks, controllers and operations."""
    flags = ["--check-build", *(["--verbose"] if verbose else [])]
    subprocess.run([horovodrun_path(), *flags], check=True)


def is_gloo_used(
    use_gloo: bool | None = None, use_mpi: bool | None = None, use_jsrun: bool | None = None
) -> bool:
    """Whether horovodrun starts the ranks itself with these flags.

    Without flags, jsrun starts the ranks if LSF has allocated hosts by CSM.
    """
    if use_gloo:
        return True
    if use_mpi or use_jsrun:
        return False
    is_allocated = bool(os.environ.get("LSB_JOBID") and os.environ.get("CSM_ALLOCATION_ID"))
    return not (is_allocated and js_run.is_jsrun_installed())


if __name__ == "__main__":
    run_commandline()
