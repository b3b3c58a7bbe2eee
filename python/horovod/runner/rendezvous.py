# SPDX-License-Identifier: Apache-2.0
"""Passes objects between the process that calls run() and its ranks, by a rendezvous server.

Keys on the server, all below "run/":

    <name>              the number of chunks of an object; written after the chunks
    <name>/<n>          chunk n of the object
or, for a queue that many clients append to and one client takes from:
    <name>              the number of objects that were appended
    <name>/<n>          object n; deleted when it is taken
    <name>/taken/<b>    block b of BLOCK objects was taken
"""

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
# Bytes of one value. The server accepts values of at most 4 MiB.
CHUNK = 2 << 20
# Objects in one block of a queue. The server holds at most two blocks at once (see append()), which
# is 64 MiB for objects of 64 KiB. Its limit is 256 MiB.
BLOCK = 512


class Result:
    """The result of a rank's call: a value, or an exception and its traceback."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error
        self.traceback = (
            ""
            if error is None
            else "".join(traceback.format_exception(type(error), error, error.__traceback__))
        )

    def __getstate__(self) -> dict[str, Any]:
        """Replace an exception that cannot be pickled by its text."""
        state = dict(self.__dict__)
        try:
            pickling.loads(pickling.dumps(self.error))
        except Exception:
            state["error"] = RuntimeError(f"{type(self.error).__name__}: {self.error}")
        return state


def cause_of(results: Mapping[int, Result]) -> tuple[int, Result] | None:
    """The rank whose exception ended the run, and its result; None if no rank raised one.

    A HorovodInternalError usually is the consequence of another rank's exception. So it is returned
    only if no rank raised another kind of exception.
    """
    failures = [(rank, result) for rank, result in sorted(results.items()) if result.error]
    failures.sort(key=lambda failure: isinstance(failure[1].error, HorovodInternalError))
    return failures[0] if failures else None


def values_of(results: Mapping[int, Result], size: int) -> list[Any]:
    """The values of all ranks. RuntimeError if a rank has no result."""
    missing = [rank for rank in range(size) if rank not in results]
    if missing:
        raise RuntimeError(
            f"there is no result of rank {missing[0]}: it ended before its function returned; a "
            "function has to return instead of calling exit"
        )
    return [results[rank].value for rank in range(size)]


def uses_tls(environment: Mapping[str, str | None] | None = None) -> bool:
    """Whether connections to the rendezvous server use TLS.

    environment: the variables that decide; None for those of this process.
    """
    return settings.flag("HOROVOD_TLS", environment)


class RendezvousClient:
    """One connection to the rendezvous server, for one thread.

    address: host:port, or several with commas. tls: None for the setting HOROVOD_TLS.
    Raises HorovodInternalError if the server cannot be reached or fails.
    """

    def __init__(self, address: str, secret: str, tls: bool | None = None) -> None:
        tls = uses_tls() if tls is None else tls
        self._client = _core.rendezvous_connect(address, secret, tls, CONNECT_SECONDS)

    def put(self, name: str, obj: Any) -> None:
        """Write an object, or replace it."""
        self.put_pickled(name, pickling.dumps(obj))

    def put_pickled(self, name: str, data: bytes) -> None:
        """As put(), for an object that is pickled already."""
        chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
        for number, chunk in enumerate(chunks):
            _core.rendezvous_set(self._client, f"run/{name}/{number}", chunk)
        # The count is last: a reader that finds it finds all chunks.
        _core.rendezvous_set(self._client, f"run/{name}", str(len(chunks)).encode())

    def get(self, name: str, seconds: float = CONNECT_SECONDS) -> tuple[bool, Any]:
        """Wait for an object. Returns whether it arrived in time, and the object."""
        count = _core.rendezvous_get(self._client, f"run/{name}", seconds)
        if count is None:
            return False, None
        chunks = [self._chunk(name, number, int(count)) for number in range(int(count))]
        return True, pickling.loads(b"".join(chunks))

    def _chunk(self, name: str, number: int, count: int) -> bytes:
        chunk = _core.rendezvous_get(self._client, f"run/{name}/{number}", CONNECT_SECONDS)
        if chunk is None:
            raise HorovodInternalError(
                f'part {number + 1} of {count} of the object "{name}" did not arrive from the '
                f"rendezvous server within {CONNECT_SECONDS:g} s; the object is incomplete and was "
                "not loaded. Check the connection to the host that called run()"
            )
        return chunk

    def append(self, name: str, obj: Any) -> None:
        """Append a small object to a queue, to which many clients append.

        Waits until the block two before its own is taken, which bounds the memory of the queue.
        """
        number = _core.rendezvous_add(self._client, f"run/{name}", 1) - 1
        earlier = f"run/{name}/taken/{number // BLOCK - 2}"
        while number >= 2 * BLOCK and _core.rendezvous_get(self._client, earlier, 1.0) is None:
            pass
        _core.rendezvous_set(self._client, f"run/{name}/{number}", pickling.dumps(obj))

    def appended(self, name: str) -> int:
        """The number of appended objects. The last of them may still be on their way."""
        return int(_core.rendezvous_get(self._client, f"run/{name}", 0.0) or 0)

    def take(self, name: str, number: int, seconds: float) -> tuple[bool, Any]:
        """As get(), for object `number` of a queue, which is then deleted.

        One client takes all objects, in order from 0.
        """
        data = _core.rendezvous_get(self._client, f"run/{name}/{number}", seconds)
        if data is None:
            return False, None
        _core.rendezvous_delete(self._client, f"run/{name}/{number}")
        block, last = divmod(number, BLOCK)
        if last == BLOCK - 1:
            _core.rendezvous_set(self._client, f"run/{name}/taken/{block}", b"")
            # Only writers of block - 1 wait for the key of block - 3. None of them waits any more:
            # all objects of block - 1 were taken, so all were written.
            _core.rendezvous_delete(self._client, f"run/{name}/taken/{block - 3}")
        return True, pickling.loads(data)


class RendezvousServer:
    """The rendezvous server of one run, and a client of the process that owns it.

    is_local: serves on 127.0.0.1 only. tls: None for the setting HOROVOD_TLS.
    A context manager: leaving it stops the server. One thread at a time may use it.
    """

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
        """The variables by which ranks find the server."""
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
        """The results of the ranks that have sent one, by rank."""
        there, size = self._client.get("size", 0)
        if not there:
            return {}
        gathered = {rank: self._client.get(f"result/{rank}", 0) for rank in range(size)}
        return {rank: result for rank, (there, result) in gathered.items() if there}


# Set by client_of_rank().
_address_and_secret: tuple[str, str] | None = None


def client_of_rank() -> RendezvousClient:
    """Connect this rank to the server of its run, and remove the secret from the environment.

    The server runs on the host of the launcher. So its hosts are those in HOROVOD_RENDEZVOUS, and
    only the port is another one.
    """
    global _address_and_secret  # noqa: PLW0603
    port = os.environ.pop(PORT)
    secret = os.environ.pop(SECRET)
    rendezvous = settings.text("HOROVOD_RENDEZVOUS") or "127.0.0.1:0"
    addresses = [f"{address.rpartition(':')[0]}:{port}" for address in rendezvous.split(",")]
    _address_and_secret = ",".join(addresses), secret
    return RendezvousClient(*_address_and_secret)


def second_client_of_rank() -> RendezvousClient | None:
    """A second connection, for another thread; None in a process that is no rank of run()."""
    return None if _address_and_secret is None else RendezvousClient(*_address_and_secret)
