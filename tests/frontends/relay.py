# SPDX-License-Identifier: Apache-2.0
"""Somebody on the network between a client and a store, who sees frames and may change them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable
from typing import Callable

HELLO, HANDSHAKE = 40, 72  # bytes of each side: hello, and with its proof
HEADER, TAG = 4, 16

# From one frame, and all before it that went the same way, to what is sent instead.
Change = Callable[[bytes, "list[bytes]"], Iterable[bytes]]


class Relay:
    """Listens on `port` and connects to the store for each client.

    requests, answers: what becomes of frames from and to the client.
    """

    def __init__(self, port: int, requests: Change | None = None, answers: Change | None = None):
        self._to = port
        self._changes = requests, answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._to))
                for ends, change in zip(((client, server), (server, client)), self._changes):
                    threading.Thread(target=_carry, args=(*ends, change), daemon=True).start()


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise OSError("the end")
        data += more
    return data


def _carry(source: socket.socket, to: socket.socket, change: Change | None) -> None:
    before: list[bytes] = []
    with contextlib.suppress(OSError):
        for size in (HELLO, HANDSHAKE - HELLO):
            to.sendall(_read(source, size))
        while True:
            header = _read(source, HEADER)
            frame = header + _read(source, int.from_bytes(header, "little") + TAG)
            for each in change(frame, before) if change else [frame]:
                to.sendall(each)
            before.append(frame)
    for end in source, to:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
