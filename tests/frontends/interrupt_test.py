# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends every call that waits, and leaves the process in the documented state.

Each process here waits for an event that does not happen within 90 seconds, and a real SIGINT
interrupts it. No framework is used.
"""

from __future__ import annotations

import signal
import socket
import textwrap

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


THERE_IS_NO_JOB = """
assert not _core.is_initialized()
for name in [name for name in os.environ if "HOROVOD" in name]:
    del os.environ[name]
basics.init()
assert basics.size() == 1
basics.shutdown()
"""


def test_init_that_waits_for_a_rank(processes, rank_settings):
    rank = processes("wait_in(basics.init)" + THERE_IS_NO_JOB, HOROVOD_RANK="0", **rank_settings)
    rank.interrupt()
    rank.end()


def test_init_that_waits_for_the_rendezvous_server(processes, rank_settings):
    rank_settings["HOROVOD_RENDEZVOUS"] = f"127.0.0.1:{free_port()}"
    rank = processes("wait_in(basics.init)" + THERE_IS_NO_JOB, HOROVOD_RANK="1", **rank_settings)
    rank.interrupt()
    rank.end()


def test_init_that_waits_for_a_process_set(processes, rank_settings):
    rank = processes(
        "wait_in(basics.init, None, [process_sets.ProcessSet([0])])" + THERE_IS_NO_JOB,
        HOROVOD_RANK="0",
        **rank_settings,
    )
    other = processes('basics.init()\nhear("end")', HOROVOD_RANK="1", **rank_settings)
    rank.interrupt()
    rank.end()
    other.say("end")
    other.end()


def test_init_that_waits_for_another_thread(processes, rank_settings):
    rank = processes(
        """
        threading.Thread(target=basics.init, daemon=True).start()
        time.sleep(0.5)
        wait_in(basics.init)
        assert not _core.is_initialized()
        os._exit(0)
        """,
        HOROVOD_RANK="0",
        **rank_settings,
    )
    rank.interrupt()
    rank.end()


def pair(processes, rank_settings, waiting: str, other: str):
    rank_settings["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    return (
        processes("basics.init()\n" + textwrap.dedent(waiting), HOROVOD_RANK="0", **rank_settings),
        processes("basics.init()\n" + textwrap.dedent(other), HOROVOD_RANK="1", **rank_settings),
    )


def test_add_process_set_continues(processes, rank_settings):
    rank, other = pair(
        processes,
        rank_settings,
        """
        wait_in(process_sets.add_process_set, [0])
        print(sorted(process_sets.get_process_set_ids_and_ranks()), flush=True)
        hear("look")
        while process_sets.get_process_set_ids_and_ranks() != {0: [0, 1], 1: [0]}:
            time.sleep(0.01)
        print("there", flush=True)
        basics.shutdown()
        """,
        """
        hear("add")
        assert process_sets.add_process_set([0]).process_set_id == 1
        hear("end")
        """,
    )
    rank.interrupt()
    assert rank.line() == "[0]"
    other.say("add")
    rank.say("look")
    assert rank.line() == "there"
    rank.end()
    other.say("end")
    other.end()


def test_remove_process_set_continues_and_shutdown_ends_it(processes, rank_settings):
    rank, other = pair(
        processes,
        rank_settings,
        """
        added = process_sets.add_process_set([0])
        wait_in(process_sets.remove_process_set, added)
        basics.shutdown()
        assert not _core.is_initialized()
        """,
        """
        process_sets.add_process_set([0])
        hear("end")
        """,
    )
    rank.interrupt()
    rank.end()
    other.say("end")
    other.end()


def test_shutdown_that_waits_for_a_frozen_rank(processes, rank_settings):
    rank, other = pair(
        processes,
        rank_settings,
        """
        hear("leave")
        wait_in(basics.shutdown)
        assert not _core.is_initialized()
        os._exit(0)
        """,
        """
        print("up", flush=True)
        hear("end")
        """,
    )
    assert other.line() == "up"
    other.freeze()
    rank.say("leave")
    rank.interrupt()
    rank.end()


def test_a_client_that_waits_for_a_rendezvous_server(processes, rank_settings):
    silent = socket.create_server(("127.0.0.1", 0))
    silent_address = f"127.0.0.1:{silent.getsockname()[1]}"
    client = processes(
        f"""
        secret = os.environ["_HOROVOD_SECRET_KEY"]
        wait_in(_core.rendezvous_connect, {silent_address!r}, secret, False, WAIT)
        wait_in(_core.rendezvous_connect, "127.0.0.1:{free_port()}", secret, False, WAIT)
        client = _core.rendezvous_connect(os.environ["HOROVOD_RENDEZVOUS"], secret, False, WAIT)
        wait_in(_core.rendezvous_get, client, "missing", WAIT)
        _core.rendezvous_set(client, "key", b"value")
        assert _core.rendezvous_get(client, "key", WAIT) == b"value"
        """,
        **rank_settings,
    )
    for _ in range(3):
        client.interrupt()
    client.end()
    silent.close()


@pytest.mark.parametrize(
    "call",
    [
        '_core.rendezvous_set, client, "key", b"value"',
        '_core.rendezvous_add, client, "number", 1',
        '_core.rendezvous_delete, client, "key"',
    ],
)
def test_a_client_whose_rendezvous_server_is_stopped(processes, call):
    server = processes(
        """
        secret = _core.make_secret()
        server = _core.rendezvous_start(secret, "127.0.0.1", False)
        print(_core.rendezvous_port(server), secret, flush=True)
        hear("end")
        """
    )
    port, secret = server.line().split()
    client = processes(
        f"""
        client = _core.rendezvous_connect("127.0.0.1:{port}", {secret!r}, False, WAIT)
        print("up", flush=True)
        hear("go")
        wait_in({call})
        hear("again")
        assert _core.rendezvous_add(client, "other", 5) == 5
        """
    )
    assert client.line() == "up"
    server.freeze()
    client.say("go")
    client.interrupt()
    server.process.send_signal(signal.SIGCONT)
    client.say("again")
    client.end()
    server.say("end")
    server.end()
