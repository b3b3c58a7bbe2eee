# SPDX-License-Identifier: Apache-2.0
"""Functions and results of a run, while an attacker changes the frames of the rendezvous server."""

import contextlib
import os
import pickle
import socket
import struct
import threading

import cloudpickle
import pytest
from horovod.common.exceptions import HorovodInternalError
from horovod.runner import rendezvous
from relay import HANDSHAKE, HEADER, TAG, Relay

GOOD = "the function of this run " + "x" * 200


class Attack:
    """Makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(rendezvous, "CONNECT_SECONDS", 5.0)
    with rendezvous.RendezvousServer(is_local=True, tls=False) as server:
        yield server


@pytest.fixture
def relay(server):
    relays = []

    def make(**changes):
        relays.append(Relay(server.port, **changes))
        return rendezvous.RendezvousClient(f"127.0.0.1:{relays[-1].port}", server.secret, tls=False)

    yield make
    for each in relays:
        each.close()


def has_load(frame):
    return b"the function" in frame


def evil(frame, path):
    """The frame with another pickle of the same length instead of the good one."""
    good = cloudpickle.dumps(GOOD)
    at = frame.index(good)
    bad = pickle.dumps(Attack(path))
    assert len(bad) <= len(good)
    return frame[:at] + bad.ljust(len(good), b"\0") + frame[at + len(good) :]


def flipped(frame, at):
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]


def cut(frame):
    """The frame without its last bytes, and the frame again.

    The reader uses the first bytes of the second frame instead of the missing ones. They may be
    equal (one byte in 1 of 256 runs), and then nothing is lost: so cut more until they differ.
    """
    shorter = (frame[:-count] for count in range(1, TAG + 1))
    return next([short, frame] for short in shorter if not (short + frame).startswith(frame))


def test_the_relay_of_these_tests_lets_everything_through(server, relay):
    client = relay()
    client.put("func", GOOD)
    assert client.get("func", 5) == (True, GOOD)
    assert server.receive("func", 5) == (True, GOOD)


def test_a_cut_frame_is_never_the_whole_one():
    ends_like_it_begins = b"begin..........................b"
    assert cut(ends_like_it_begins)[0] == ends_like_it_begins[:-2]
    assert cut(b"begin...........................")[0] == b"begin.........................."


ANSWERS = {
    "exchanged": lambda path: lambda frame, _: [evil(frame, path) if has_load(frame) else frame],
    "changed": lambda _: lambda frame, _: [flipped(frame, len(frame) // 2)],
    "other tag": lambda _: lambda frame, _: [flipped(frame, len(frame) - TAG)],
    "no tag": lambda _: lambda frame, _: [frame[:-TAG] + bytes(TAG)],
    "longer": lambda _: lambda frame, _: [flipped(frame, 0)] * 2,
    "enormous": lambda _: lambda frame, _: [b"\xff" * HEADER + frame[HEADER:]],
    "repeated": lambda _: lambda frame, _: [frame, frame],
    "the one before": lambda _: lambda frame, before: [before[-1] if before else frame],
    "dropped": lambda _: lambda frame, before: [frame] if before else [],
    "cut": lambda _: lambda frame, _: cut(frame),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_no_changed_answer_is_unpickled(server, relay, tmp_path, monkeypatch, what):
    server.send("func", GOOD)
    client = relay(answers=ANSWERS[what](tmp_path / "ran"))
    loaded = []
    monkeypatch.setattr(cloudpickle, "loads", lambda data: loaded.append(bytes(data)))
    if what == "dropped":
        # A client would wait 30 seconds for the answer; the next frame is refused earlier.
        threading.Timer(0.5, lambda: server.send("late", GOOD)).start()
        with pytest.raises(HorovodInternalError):
            assert client.get("late", 0.1) == (False, None)
            client.get("func", 5)
    else:
        # ValueError: a frame that is too long is refused by its length.
        with pytest.raises((HorovodInternalError, ValueError)):
            client.get("func", 5)
            client.get("func", 5)
    assert not (tmp_path / "ran").exists()
    # At most the objects that were requested before the first changed frame.
    assert loaded in ([], [cloudpickle.dumps(GOOD)])


REQUESTS = {
    "exchanged": ANSWERS["exchanged"],
    "changed": ANSWERS["changed"],
    "repeated": ANSWERS["repeated"],
    "the one before": ANSWERS["the one before"],
}


@pytest.mark.parametrize("what", REQUESTS)
def test_no_changed_request_reaches_the_server(server, relay, tmp_path, what):
    client = relay(requests=REQUESTS[what](tmp_path / "ran"))
    with pytest.raises(HorovodInternalError):
        client.put("func", GOOD)
        client.put("func", GOOD)
    _, value = server.receive("func", 0)
    assert not (tmp_path / "ran").exists()
    assert value in (None, GOOD)


def answer_to(client, request):
    """The bytes that the server sends until it closes the connection, which it may do any time."""
    answer = b""
    try:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        while more := client.recv(4096):
            answer += more
    except socket.timeout:  # its name in Python 3.9
        raise
    except OSError:  # it has not read all of that, or the other end is gone already
        pass
    return answer


def test_nothing_of_a_client_without_the_secret_is_kept(server):
    """A client without the secret that speaks the protocol, and would leave a pickle."""
    key, value = b"run/func", pickle.dumps(Attack("/nonexistent"))
    for start in (b"", b"hvdP" + struct.pack("<HH", 1, 0) + bytes(32)):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            payload = b"\0" * 9 + struct.pack("<I", len(key)) + key + value
            request = start + struct.pack("<I", len(payload)) + payload + bytes(TAG)
            assert len(answer_to(client, request)) <= HANDSHAKE
    assert server.receive("func", 0) == (False, None)


def test_nothing_of_a_server_without_the_secret_is_unpickled(monkeypatch, server):
    monkeypatch.setattr(rendezvous, "CONNECT_SECONDS", 1.0)
    monkeypatch.setattr(cloudpickle, "loads", lambda _: pytest.fail("a pickle was loaded"))
    listener = socket.create_server(("127.0.0.1", 0))
    value = pickle.dumps(Attack("/nonexistent"))

    def answer():
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            hello = b"hvdP" + struct.pack("<HH", 1, 0) + bytes(32) + bytes(32)
            with contextlib.suppress(OSError):  # the client has left
                client.sendall(hello + struct.pack("<I", len(value)) + value + bytes(TAG))

    threading.Thread(target=answer, daemon=True).start()
    try:
        with pytest.raises(HorovodInternalError):
            rendezvous.RendezvousClient(
                f"127.0.0.1:{listener.getsockname()[1]}", server.secret, tls=False
            )
    finally:
        listener.close()
