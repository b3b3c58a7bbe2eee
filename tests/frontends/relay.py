# SPDX-License-Identifier: Apache-2.0
"""A relay between a client and a rendezvous server, which reads frames and may change them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable
from typing import Callable

HELLO, HANDSHAKE = 40, 72  # bytes that each side sends: the hello, and the hello with its proof
HEADER, TAG = 4, 16

# Receives a frame and all earlier frames of the same direction; returns the frames to send instead.
Change = Callable[[bytes, "list[bytes]"], Iterable[bytes]]


class Relay:
    """Listens on a port of its own, and connects each client to the server at `port`.

    requests, answers: change frames from and to the client.
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
