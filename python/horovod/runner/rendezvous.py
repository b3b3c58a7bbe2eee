# SPDX-License-Identifier: Apache-2.0
"""Objects between the process that calls run() and its ranks, through an authenticated store."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from typing import Any

from horovod import _core
from horovod.common import pickling, settings
from horovod.common.exceptions import HorovodInternalError

PORT, SECRET = "_HOROVOD_RUN_PORT", "_HOROVOD_RUN_SECRET"
CONNECT_SECONDS = 60.0
# A store holds values of at most 4 MiB.
CHUNK = 2 << 20
# Of objects that are taken one after the other. With pieces of 64 KiB three of them are 96 MiB, and
# a store holds 256 MiB.
BLOCK = 512


class Result:
    """What became of a rank's call: a value, or an exception and where it was raised."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error
        self.traceback = (
            ""
            if error is None
            else "".join(traceback.format_exception(type(error), error, error.__traceback__))
        )

    def __getstate__(self) -> dict[str, Any]:
        """An exception that cannot travel is replaced by its text."""
        state = dict(self.__dict__)
        try:
            pickling.loads(pickling.dumps(self.error))
        except Exception:
            state["error"] = RuntimeError(f"{type(self.error).__name__}: {self.error}")
        return state


def cause_of(results: Mapping[int, Result]) -> tuple[int, Result] | None:
    """The rank whose exception has ended a run, if there is one.

    One that lost the others is a consequence; the cause is with those.
    """
    failures = [(rank, result) for rank, result in sorted(results.items()) if result.error]
    failures.sort(key=lambda failure: isinstance(failure[1].error, HorovodInternalError))
    return failures[0] if failures else None


def values_of(results: Mapping[int, Result], size: int) -> list[Any]:
    """By rank, of ranks that have all ended well."""
    missing = [rank for rank in range(size) if rank not in results]
    if missing:
        raise RuntimeError(
            f"there is no result of rank {missing[0]}: it has ended, and its function had not "
            "returned; a function has to return instead of calling exit"
        )
    return [results[rank].value for rank in range(size)]


def uses_tls(environment: Mapping[str, str | None] | None = None) -> bool:
    """Whether connections to stores are encrypted, by this environment or that of this process."""
    return settings.flag("HOROVOD_TLS", environment)


class RendezvousClient:
    """One connection to the store."""

    def __init__(self, address: str, secret: str, tls: bool | None = None) -> None:
        tls = uses_tls() if tls is None else tls
        self._client = _core.rendezvous_connect(address, secret, tls, CONNECT_SECONDS)

    def put(self, name: str, obj: Any) -> None:
        self.put_pickled(name, pickling.dumps(obj))

    def put_pickled(self, name: str, data: bytes) -> None:
        """As put(), of an object that the caller has pickled."""
        chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
        for number, chunk in enumerate(chunks):
            _core.rendezvous_set(self._client, f"run/{name}/{number}", chunk)
        # Who sees the number sees the rest.
        _core.rendezvous_set(self._client, f"run/{name}", str(len(chunks)).encode())

    def get(self, name: str, seconds: float = CONNECT_SECONDS) -> tuple[bool, Any]:
        """Whether there is such an object within the time, and the object."""
        count = _core.rendezvous_get(self._client, f"run/{name}", seconds)
        if count is None:
            return False, None
        chunks = [self._chunk(name, number, int(count)) for number in range(int(count))]
        return True, pickling.loads(b"".join(chunks))

    def _chunk(self, name: str, number: int, count: int) -> bytes:
        chunk = _core.rendezvous_get(self._client, f"run/{name}/{number}", CONNECT_SECONDS)
        if chunk is None:
            raise HorovodInternalError(
                f'part {number + 1} of {count} of the object "{name}" did not come from the store '
                f"of the run within {CONNECT_SECONDS:g} s; the object is incomplete and was not "
                "loaded. Check the connection to the host that called run()"
            )
        return chunk

    def append(self, name: str, obj: Any) -> None:
        """Add a small object to those that many boxes write and one takes.

        Waits while there are more than two to three blocks of them that have not been taken.
        """
        number = _core.rendezvous_add(self._client, f"run/{name}", 1) - 1
        earlier = f"run/{name}/taken/{number // BLOCK - 2}"
        while number >= 2 * BLOCK and _core.rendezvous_get(self._client, earlier, 1.0) is None:
            pass
        _core.rendezvous_set(self._client, f"run/{name}/{number}", pickling.dumps(obj))

    def appended(self, name: str) -> int:
        """How many objects were added; who has added the last ones may not have sent them yet."""
        return int(_core.rendezvous_get(self._client, f"run/{name}", 0.0) or 0)

    def take(self, name: str, number: int, seconds: float) -> tuple[bool, Any]:
        """As get(), of those that were added, one after the other from 0; it is gone then."""
        data = _core.rendezvous_get(self._client, f"run/{name}/{number}", seconds)
        if data is None:
            return False, None
        _core.rendezvous_delete(self._client, f"run/{name}/{number}")
        block, last = divmod(number, BLOCK)
        if last == BLOCK - 1:
            _core.rendezvous_set(self._client, f"run/{name}/taken/{block}", b"")
            # Whoever waits is in a later block, and so for the one before this at least.
            _core.rendezvous_delete(self._client, f"run/{name}/taken/{block - 3}")
        return True, pickling.loads(data)


class RendezvousServer:
    """The store of one run, and its owner's own client."""

    def __init__(self, is_local: bool, tls: bool | None = None) -> None:
        self.secret = _core.make_secret()
        bind = "127.0.0.1" if is_local else None
        tls = uses_tls() if tls is None else tls
        self._server = _core.rendezvous_start(self.secret, bind, tls)
        self.port = _core.rendezvous_port(self._server)
        self._client = RendezvousClient(f"127.0.0.1:{self.port}", self.secret, tls)

    def __enter__(self) -> RendezvousServer:
        return self

    def __exit__(self, *_: object) -> None:
        _core.rendezvous_stop(self._server)

    def environment(self) -> dict[str, str]:
        """For the environment of the ranks."""
        return {PORT: str(self.port), SECRET: self.secret}

    def send(self, name: str, obj: Any) -> None:
        self._client.put(name, obj)

    def send_pickled(self, name: str, data: bytes) -> None:
        self._client.put_pickled(name, data)

    def receive(self, name: str, seconds: float) -> tuple[bool, Any]:
        return self._client.get(name, seconds)

    def take(self, name: str, number: int, seconds: float) -> tuple[bool, Any]:
        return self._client.take(name, number, seconds)

    def results(self) -> dict[int, Result]:
        """Of the ranks that have sent one."""
        there, size = self._client.get("size", 0)
        if not there:
            return {}
        gathered = {rank: self._client.get(f"result/{rank}", 0) for rank in range(size)}
        return {rank: result for rank, (there, result) in gathered.items() if there}


_address_and_secret: tuple[str, str] | None = None


def client_of_rank() -> RendezvousClient:
    """The client of this rank. The store is on the launcher's host, which ranks have reached."""
    global _address_and_secret  # noqa: PLW0603
    port = os.environ.pop(PORT)
    secret = os.environ.pop(SECRET)
    rendezvous = settings.text("HOROVOD_RENDEZVOUS") or "127.0.0.1:0"
    addresses = [f"{address.rpartition(':')[0]}:{port}" for address in rendezvous.split(",")]
    _address_and_secret = ",".join(addresses), secret
    return RendezvousClient(*_address_and_secret)


def second_client_of_rank() -> RendezvousClient | None:
    """Another connection, for another thread; None in a process that is no rank of run()."""
    return None if _address_and_secret is None else RendezvousClient(*_address_and_secret)
