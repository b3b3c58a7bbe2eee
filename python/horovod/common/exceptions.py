"""What can go wrong. The native module raises these; it must not be imported here."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """An operation has failed in a way that concerns the whole job.

    Ranks disagreed about an operation, or one was lost or has shut down. Elastic training goes on
    from the last commit.
    """


class NotInitializedError(HorovodInternalError, ValueError):
    """hvd.init() comes first. Scripts expect the one type or the other; it is both."""


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
