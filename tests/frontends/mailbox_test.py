# SPDX-License-Identifier: Apache-2.0
"""Objects through the store of a run."""

import threading
import time

import pytest
from horovod import _core
from horovod.common.exceptions import HorovodInternalError
from horovod.runner import mailbox


@pytest.fixture
def office():
    with mailbox.Office(is_local=True) as office:
        yield office


def box_of(office):
    return mailbox.Box(f"127.0.0.1:{office.port}", office.secret)


def test_what_many_add_one_takes_in_order(office):
    def add(who):
        box = box_of(office)
        for number in range(50):
            box.append("things", (who, number))

    threads = [threading.Thread(target=add, args=(who,)) for who in "abc"]
    for thread in threads:
        thread.start()
    taken = [office.take("things", number, 20)[1] for number in range(150)]
    for thread in threads:
        thread.join()
    for who in "abc":
        assert [number for of, number in taken if of == who] == list(range(50))
    assert office.take("things", 150, 0) == (False, None)


def test_who_adds_waits_for_who_takes(office, monkeypatch):
    monkeypatch.setattr(mailbox, "BLOCK", 4)
    added, done = [], threading.Event()

    def add():
        box = box_of(office)
        for number in range(40):
            box.append("things", number)
            added.append(number)
        done.set()

    thread = threading.Thread(target=add)
    thread.start()
    # Two blocks, and none has been taken.
    deadline = time.monotonic() + 20
    while len(added) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not done.wait(0.5) and len(added) == 8
    taken = [office.take("things", number, 20)[1] for number in range(40)]
    assert done.wait(20) and taken == list(range(40))
    thread.join()


def test_an_object_with_a_missing_part_is_named_and_not_loaded(office, monkeypatch):
    monkeypatch.setattr(mailbox, "CHUNK", 1000)
    monkeypatch.setattr(mailbox, "CONNECT_SECONDS", 0.1)
    box = box_of(office)
    box.put("result/7", "x" * 2500)
    _core.store_delete(box._client, "run/result/7/1")
    with pytest.raises(HorovodInternalError, match=r'part 2 of 3 of the object "result/7"'):
        box.get("result/7")
