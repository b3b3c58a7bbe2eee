# SPDX-License-Identifier: Apache-2.0
"""Exceptions. The native module imports this one, so this one must not import it."""

from __future__ import annotations

import enum


class ErrorCode(enum.IntEnum):
    """The reason of a failure: hvd_code of the C interface.

    It is the attribute `code` of every exception that the library raises, also of Python's own
    types such as ValueError.
    """

    INVALID_ARGUMENT = 1
    PRECONDITION = 2
    PEER_LOST = 3
    TIMEOUT = 4
    ABORTED = 5
    UNAUTHENTICATED = 6
    NOT_FOUND = 7
    UNAVAILABLE = 8
    IO = 9
    INTERNAL = 10
    ALREADY_EXISTS = 11
    NOT_INITIALIZED = 12


# The connection to a rank, or the job, has ended. A restart makes a new one.
_CURED_BY_A_NEW_START = {
    ErrorCode.PEER_LOST,
    ErrorCode.TIMEOUT,
    ErrorCode.ABORTED,
    ErrorCode.IO,
}


class HorovodInternalError(RuntimeError):
    """An operation failed for a reason that concerns the whole job.

    Ranks disagreed about an operation, or a rank was lost or has shut down; `code` tells which.
    Elastic training continues from the last commit if `can_be_cured` is true.
    """

    # None if a script or a front end raised it.
    code: ErrorCode | None = None

    @property
    def can_be_cured(self) -> bool:
        """Whether a restart of the job can help: a rank was lost, or has shut down.

        A request that ranks disagree about, and an invalid request, would fail again.
        """
        return self.code is None or self.code in _CURED_BY_A_NEW_START


class NotInitializedError(HorovodInternalError, ValueError):
    """A function was called before hvd.init(). Scripts catch either base class."""

    code = ErrorCode.NOT_INITIALIZED


class StartError(HorovodInternalError, ValueError):
    """hvd.init() failed. There is no job, and init may be called again."""


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818
    """Hosts were added or removed, and the job restarts with the new ones.

    skip_sync: hosts were only removed, so all remaining ranks have the same state already.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__()
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    return (
        f"Horovod was built with {name} {version}, and {installed_version} is installed; "
        f"install Horovod again, or {name} {version}"
    )


class HorovodVersionMismatchError(ImportError):
    """Never raised, because one build serves every version of a framework; scripts catch it."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
