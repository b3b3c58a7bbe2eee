"""horovodrun from Python: finds the native launcher and becomes it."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence

__all__ = ["check_build", "horovodrun_path", "run_commandline"]


def horovodrun_path() -> str:
    """The launcher that this package has brought; else one on the PATH."""
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
            "there is no horovodrun beside this package or on the PATH; install horovod again"
        )
    return found


def run_commandline(arguments: Sequence[str] | None = None) -> None:
    """`python -m horovod.runner.launch` and what setup tools call: does not return."""
    path = horovodrun_path()
    given = sys.argv[1:] if arguments is None else list(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(path, [path, *given])


def check_build(verbose: bool = False) -> None:
    """Print which frameworks, controllers and operations there are."""
    flags = ["--check-build", *(["--verbose"] if verbose else [])]
    subprocess.run([horovodrun_path(), *flags], check=True)


if __name__ == "__main__":
    run_commandline()
