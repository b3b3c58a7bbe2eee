# SPDX-License-Identifier: Apache-2.0
"""horovod.common.elastic, without ranks and frameworks."""

from __future__ import annotations

import pytest
from horovod.common import elastic
from horovod.common.elastic import (
    HostUpdateResult,
    ObjectState,
    State,
    notification_manager,
    run_fn,
)
from horovod.common.exceptions import (
    ErrorCode,
    HorovodInternalError,
    HostsUpdatedInterrupt,
    NotInitializedError,
)


class Diary(State):
    """Records the calls of its methods."""

    def __init__(self):
        super().__init__(lambda value: value, lambda: 0)
        self.lines = []

    def sync(self):
        self.lines.append("sync")

    def restore(self):
        self.lines.append("restore")

    def save(self):
        self.lines.append("save")

    def reset(self):
        self.lines.append("adapt")


def run(state, *events):
    """The result of a function whose calls end with these events; a value is returned."""
    coming = iter(events)

    def train(given, factor, plus=0):
        state.lines.append("call")
        event = next(coming)
        if isinstance(event, Exception):
            raise event
        return factor * event + plus

    return run_fn(train, lambda: state.lines.append("start"))(state, 2, plus=1)


def test_a_function_that_succeeds_is_called_once():
    state = Diary()
    assert run(state, 5) == 11
    assert state.lines == ["sync", "call"]


def test_a_failure_restores_and_other_hosts_do_not():
    state = Diary()
    state.register_reset_callbacks([lambda: state.lines.append("callback")])
    events = [HorovodInternalError("lost"), HostsUpdatedInterrupt(), HostsUpdatedInterrupt(True)]
    assert run(state, *events, HorovodInternalError("lost"), 5) == 11
    restart = ["start", "adapt", "callback"]
    assert state.lines == [
        *("sync", "call", "restore", *restart),
        *("sync", "call", *restart),
        *("sync", "call", *restart),
        *("call", "restore", *restart),  # all remaining ranks had the same state
        *("sync", "call"),
    ]


def failure(code):
    error = HorovodInternalError("failed")
    error.code = code
    return error


@pytest.mark.parametrize("code", ["PEER_LOST", "ABORTED", "TIMEOUT", "IO"])
def test_what_a_new_start_cures_is_tried_again(code):
    state = Diary()
    assert run(state, failure(ErrorCode[code]), 5) == 11
    assert state.lines == ["sync", "call", "restore", "start", "adapt", "sync", "call"]


def test_failures_that_follow_one_another_are_tried_after_pauses(monkeypatch):
    now, pauses = [0.0], []

    class Clock:
        monotonic = staticmethod(lambda: now[0])

        @staticmethod
        def sleep(seconds):
            pauses.append(seconds)
            now[0] += seconds

    monkeypatch.setattr(elastic, "time", Clock)
    state = Diary()
    lost = [failure(ErrorCode.PEER_LOST)] * 9
    assert run(state, *lost, 5) == 11
    assert pauses == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]
    # A failure after a long time counts as a first one.
    events = [2.0, 60.0, 2.0]
    pauses.clear()

    def train(state):
        if not events:
            return "done"
        now[0] += events.pop(0)
        raise failure(ErrorCode.ABORTED)

    assert run_fn(train, lambda: None)(state) == "done"
    assert pauses == [0.0, 0.0, 0.1]


CURABLE = {"PEER_LOST", "ABORTED", "TIMEOUT", "IO"}


@pytest.mark.parametrize(
    "error",
    [
        NotInitializedError("init first"),
        KeyError("mine"),
        *(failure(code) for code in ErrorCode if code.name not in CURABLE),
    ],
)
def test_what_fails_every_time_ends_it(error):
    state = Diary()
    with pytest.raises(type(error)):
        run(state, error)
    assert state.lines == ["sync", "call"]
    notification_manager.handle_hosts_updated(9, HostUpdateResult.added)
    state.check_host_updates()  # it receives no more messages


def test_a_commit_raises_once_hosts_have_come_or_gone():
    state = Diary()

    def interrupted(*messages):
        with pytest.raises(HostsUpdatedInterrupt) as caught:
            for message in messages:
                notification_manager.handle_hosts_updated(*message)
            state.commit()
        return caught.value.skip_sync

    def train(state):
        state.commit()
        assert interrupted((1, HostUpdateResult.removed)) is True
        state.commit()
        assert interrupted((2, HostUpdateResult.removed), (3, HostUpdateResult.added)) is False
        notification_manager.handle_hosts_updated(3, HostUpdateResult.added)
        state.commit()  # no new message: the timestamp is not newer
        notification_manager.handle_hosts_updated(4, HostUpdateResult.added)
        state.on_reset()
        state.commit()  # on_reset() drops messages from before the new start
        return "done"

    assert run_fn(train, lambda: None)(state) == "done"
    assert state.lines.count("save") == 6


def test_rank_0_decides_whether_hosts_have_changed():
    said = []
    zero = ObjectState(lambda value: said.append(value) or value, lambda: 0)
    one = ObjectState(lambda value: said[-1], lambda: 1)
    late = ObjectState(lambda value: said[-1], lambda: 2)
    zero.on_hosts_updated(1, HostUpdateResult.added)
    for state in (zero, one):  # `one` has received no message yet
        with pytest.raises(HostsUpdatedInterrupt):
            state.check_host_updates()
    one.on_hosts_updated(2, HostUpdateResult.added)
    # `one` has a newer message than rank 0, and `late` is a new rank: neither matters.
    for state in (zero, one, late):
        state.check_host_updates()


def test_objects_go_back_to_the_last_commit():
    losses = [1]
    state = ObjectState(lambda value: value, lambda: 0, epoch=0, losses=losses, best={"a": [1]})
    assert state.losses is losses
    state.epoch = 1
    state.commit()
    state.epoch = 2
    state.losses.append(2)
    state.best["a"].append(2)
    for _ in range(2):
        state.restore()
        assert (state.epoch, state.losses, state.best) == (1, [1], {"a": [1]})
        state.losses.append(3)


def test_sync_brings_what_rank_0_has_committed():
    sent = []
    zero = ObjectState(lambda value: sent.append(value) or value, lambda: 0, epoch=0)
    zero.epoch = 3
    zero.commit()
    zero.epoch = 4
    zero.sync()
    one = ObjectState(lambda value: sent[-1], lambda: 1, epoch=7)
    one.sync()
    assert zero.epoch == one.epoch == 3
    one.epoch = 8
    one.restore()
    assert one.epoch == 3
