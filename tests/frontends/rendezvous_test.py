# SPDX-License-Identifier: Apache-2.0
"""Objects through the rendezvous server of a run."""

import threading
import time

import pytest
from horovod import _core
from horovod.common.exceptions import HorovodInternalError
from horovod.runner import rendezvous


@pytest.fixture
def server():
    with rendezvous.RendezvousServer(is_local=True) as server:
        yield server


def client_of(server):
    return rendezvous.RendezvousClient(f"127.0.0.1:{server.port}", server.secret)


def test_what_many_add_one_takes_in_order(server):
    def add(who):
        client = client_of(server)
        for number in range(50):
            client.append("things", (who, number))

    threads = [threading.Thread(target=add, args=(who,)) for who in "abc"]
    for thread in threads:
        thread.start()
    taken = [server.take("things", number, 20)[1] for number in range(150)]
    for thread in threads:
        thread.join()
    for who in "abc":
        assert [number for of, number in taken if of == who] == list(range(50))
    assert server.take("things", 150, 0) == (False, None)


def test_who_adds_waits_for_who_takes(server, monkeypatch):
    monkeypatch.setattr(rendezvous, "BLOCK", 4)
    added, done = [], threading.Event()

    def add():
        client = client_of(server)
        for number in range(40):
            client.append("things", number)
            added.append(number)
        done.set()

    thread = threading.Thread(target=add)
    thread.start()
    # Two blocks, of which no object has been taken.
    deadline = time.monotonic() + 20
    while len(added) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not done.wait(0.5) and len(added) == 8
    taken = [server.take("things", number, 20)[1] for number in range(40)]
    assert done.wait(20) and taken == list(range(40))
    thread.join()


def test_an_object_with_a_missing_part_is_named_and_not_loaded(server, monkeypatch):
    monkeypatch.setattr(rendezvous, "CHUNK", 1000)
    monkeypatch.setattr(rendezvous, "CONNECT_SECONDS", 0.1)
    client = client_of(server)
    client.put("result/7", "x" * 2500)
    _core.rendezvous_delete(client._client, "run/result/7/1")
    with pytest.raises(HorovodInternalError, match=r'part 2 of 3 of the object "result/7"'):
        client.get("result/7")
