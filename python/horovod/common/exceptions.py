# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. The native module raises these; it must not be imported here."""

from __future__ import annotations

import enum


class ErrorCode(enum.IntEnum):
    """Why a call of the library has failed: hvd_code of the C interface.

    Exceptions that the library raises, also those of Python's own types such as ValueError, have it
    as their attribute `code`.
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


# The connection to a rank, or the job, has ended: a new start brings another one.
_CURED_BY_A_NEW_START = {
    ErrorCode.PEER_LOST,
    ErrorCode.TIMEOUT,
    ErrorCode.ABORTED,
    ErrorCode.IO,
}


class HorovodInternalError(RuntimeError):
    """An operation has failed in a way that concerns the whole job.

    Ranks disagreed about an operation, or one was lost or has shut down; `code` says which. Elastic
    training goes on from the last commit when a new start can cure it.
    """

    # None: raised by a script or a front end.
    code: ErrorCode | None = None

    @property
    def can_be_cured(self) -> bool:
        """Whether a new start of the job may do better: a rank was lost, or has shut down.

        What ranks disagree about, and what no rank may ask for, fails again.
        """
        return self.code is None or self.code in _CURED_BY_A_NEW_START


class NotInitializedError(HorovodInternalError, ValueError):
    """hvd.init() comes first. Scripts expect the one type or the other; it is both."""

    code = ErrorCode.NOT_INITIALIZED


class StartError(HorovodInternalError, ValueError):
    """hvd.init() has failed; there is no job, and it may be called again."""


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818
    """Hosts have come or gone, and the job starts anew with others.

    With `skip_sync` hosts have only gone, so that everybody who is left has the same state.
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
    """Kept for scripts that catch it: one build serves every version of a framework."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
