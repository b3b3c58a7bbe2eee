# SPDX-License-Identifier: Apache-2.0
"""Detects the installed MPI, with which `horovodrun --mpi` starts ranks."""

from __future__ import annotations

from collections.abc import Mapping

from horovod.runner.common.util import tiny_shell_exec

# Words in the output of `mpirun --version`. Spectrum MPI is first, because it is derived from Open
# MPI and its output contains that name too.
_WORDS = {
    "spectrum": ("Spectrum MPI",),
    "open": ("Open MPI", "OpenRTE"),
    "intel": ("Intel(R) MPI",),
    "mpich": ("MPICH", "HYDRA"),
}


def version_text(env: Mapping[str, str] | None = None) -> str | None:
    """The output of `mpirun --version`; None if there is no mpirun that works."""
    result = tiny_shell_exec.execute("mpirun --version", env)
    return None if result is None or result[1] != 0 else result[0]


def _implementation(env: Mapping[str, str] | None) -> str | None:
    text = version_text(env)
    if text is None:
        return None
    for name, words in _WORDS.items():
        if any(word in text for word in words):
            return name
    return None


def mpi_available(env: Mapping[str, str] | None = None) -> bool:
    """Whether there is an mpirun of a known implementation."""
    return _implementation(env) is not None


def is_open_mpi(env: Mapping[str, str] | None = None) -> bool:
    return _implementation(env) == "open"


def is_spectrum_mpi(env: Mapping[str, str] | None = None) -> bool:
    return _implementation(env) == "spectrum"


def is_mpich(env: Mapping[str, str] | None = None) -> bool:
    return _implementation(env) == "mpich"


def is_intel_mpi(env: Mapping[str, str] | None = None) -> bool:
    return _implementation(env) == "intel"
