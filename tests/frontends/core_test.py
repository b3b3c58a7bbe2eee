# SPDX-License-Identifier: Apache-2.0
"""horovod._core and horovod.common, without a framework."""

from __future__ import annotations

import signal
import threading

import pytest
from horovod import _core
from horovod.common import basics, process_sets, settings
from horovod.common.exceptions import ErrorCode, HorovodInternalError, NotInitializedError
from horovod.runner import rendezvous


@pytest.fixture
def job_of_one():
    basics.init()
    yield
    basics.shutdown()


def submit(collective, view, *, process_set=0, **options):
    handle = _core.submit(
        collective,
        "op",
        "x",
        view,
        process_set=process_set,
        result=print,
        will_wait=True,
        **options,
    )
    return _core.wait(handle)


def view_of(data, rows, dtype=_core.UINT8):
    return (_core.address_of(data), None, dtype, (rows,))


# Numbers ----------------------------------------------------------------------------------------

TOO_MUCH = [2**32 + 4, -(2**32), 2**31, 2**64, -(2**100)]


@pytest.mark.parametrize("number", TOO_MUCH)
def test_a_number_that_32_bits_do_not_hold_is_refused_by_name(job_of_one, number):
    data = bytearray(4)
    view = view_of(data, 4)
    reports = {
        "a split": lambda: submit(_core.ALLTOALL, view, splits=[number]),
        "the root rank": lambda: submit(_core.BROADCAST, view, root=number),
        "op": lambda: submit(_core.REDUCESCATTER, view, op=number),
        "the collective": lambda: submit(number, view),
        "the dtype": lambda: submit(_core.ALLTOALL, view_of(data, 4, number)),
        "the number of the process set": lambda: submit(_core.ALLTOALL, view, process_set=number),
        "a rank": lambda: _core.add_process_set([number]),
    }
    for what, call in reports.items():
        with pytest.raises(ValueError, match=f"^{what} is out of range: {number} "):
            call()
    for call in (_core.remove_process_set, _core.process_set_ranks):
        with pytest.raises(ValueError, match="process set is out of range"):
            call(number)


# Arguments of submit ----------------------------------------------------------------------------


def test_submit_takes_keywords_in_any_order_also_names_built_at_run_time(job_of_one):
    data = bytearray([7])
    place = _core.address_of(data)
    view = (place, place, _core.UINT8, (1,))
    backwards = {"will_" + "wait".lower(): True, "op": _core.SUM, "result": "done", "keep": data}
    handle = _core.submit(_core.ALLREDUCE, "op", "x", view, **backwards, process_set=0)
    assert _core.wait(handle) == "done"
    assert data == bytearray([7])


@pytest.mark.parametrize(
    ("positional", "options", "text"),
    [
        (3, {"process_set": 0}, "takes 4 positional arguments, not 3"),
        (5, {"process_set": 0}, "takes 4 positional arguments, not 5"),
        (4, {}, "needs the keyword argument process_set"),
        (4, {"process_set": 0, "speed": 1}, "has no keyword argument 'speed'"),
    ],
)
def test_submit_refuses_arguments_that_it_does_not_have(job_of_one, positional, options, text):
    args = (_core.BARRIER, "barrier", "x", [], None)[:positional]
    with pytest.raises(TypeError, match=text):
        _core.submit(*args, **options)


# Failures ---------------------------------------------------------------------------------------


def test_exceptions_have_the_code_of_what_went_wrong(job_of_one, monkeypatch):
    data = bytearray(4)

    def code_of(kind, call, *args, **options):
        with pytest.raises(kind) as caught:
            call(*args, **options)
        assert type(caught.value) is kind
        return caught.value.code

    refused = code_of(
        HorovodInternalError, submit, _core.REDUCESCATTER, view_of(data, 4), op=_core.MAX
    )
    assert refused is ErrorCode.INVALID_ARGUMENT
    assert code_of(ValueError, submit, _core.ALLTOALL, view_of(data, 4), splits=[5]) == refused
    assert code_of(ValueError, _core.start_timeline, "x", False) is ErrorCode.PRECONDITION
    with pytest.raises(KeyError) as caught:
        _core.setting("HOROVOD_NOTHING", None)
    assert caught.value.code is ErrorCode.NOT_FOUND
    basics.shutdown()
    assert code_of(NotInitializedError, basics.rank) is ErrorCode.NOT_INITIALIZED
    monkeypatch.setenv("HOROVOD_SIZE", "none")
    with pytest.raises(ValueError, match="initialization failed") as caught:
        basics.init()
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_a_set_that_init_is_given_twice_is_a_duplicate_by_its_code():
    with pytest.raises(ValueError, match="is a duplicate"):
        basics.init(process_sets=[process_sets.ProcessSet([0])])
    assert not basics.is_initialized()


def test_the_rank_that_has_left_is_named(processes, rank_settings):
    waiting = processes(
        """
        basics.init()
        try:
            _core.wait(_core.join())
        except Exception as error:
            print(error.code.name, error, flush=True)
        """,
        HOROVOD_RANK="0",
        **rank_settings,
    )
    leaving = processes(
        "basics.init()\nhear('leave')\nsys.exit(0)", HOROVOD_RANK="1", **rank_settings
    )
    leaving.say("leave")
    assert waiting.line().startswith("ABORTED Horovod has been shut down: rank 1 has left the job")
    for rank in (waiting, leaving):
        rank.end()


# Settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "on"),
    [
        *((word, True) for word in ("1", "true", "Yes", "on", "2")),
        *((word, False) for word in ("0", "false", "No", "off", "", " ")),
    ],
)
def test_switches_mean_the_same_to_python_and_to_the_library(monkeypatch, word, on):
    for variable in ("HOROVOD_TLS", "HOROVOD_ELASTIC", "HOROVOD_DYNAMIC_PROCESS_SETS"):
        monkeypatch.setenv(variable, word)
        assert settings.flag(variable) is on
        assert settings.flag(variable, {variable: word}) is on
        assert settings.flag(variable, {variable: None}) is False
    assert rendezvous.uses_tls() is on and rendezvous.uses_tls({"HOROVOD_TLS": word}) is on
    assert rendezvous.uses_tls({}) is False


def test_a_malformed_setting_is_an_error_that_names_it(monkeypatch):
    with pytest.raises(ValueError, match='HOROVOD_TLS="maybe": accepted is'):
        rendezvous.uses_tls({"HOROVOD_TLS": "maybe"})
    monkeypatch.setenv("HOROVOD_SPARK_START_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="HOROVOD_SPARK_START_TIMEOUT"):
        settings.number("HOROVOD_SPARK_START_TIMEOUT")


def test_lists_and_numbers_are_read_too(monkeypatch):
    assert settings.items("HOROVOD_NETWORK_INTERFACES") == []
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", "eth0, eth1")
    assert settings.items("HOROVOD_NETWORK_INTERFACES") == ["eth0", "eth1"]
    assert settings.number("HOROVOD_SPARK_START_TIMEOUT") == 600


# The secret -------------------------------------------------------------------------------------


def test_the_secret_is_for_this_process_and_not_for_its_children(processes, rank_settings):
    script = """
        import subprocess
        secret = os.environ["_HOROVOD_SECRET_KEY"]
        for _ in range(2):
            basics.init()
            assert basics.size() == 2
            print = [sys.executable, "-c", "import os; print(dict(os.environ))"]
            for environment in (None, dict(os.environ)):
                child = subprocess.run(print, env=environment, capture_output=True, check=True)
                assert b"HOROVOD_RANK" in child.stdout and secret.encode() not in child.stdout
            assert secret not in os.environ.values()
            basics.shutdown()
    """
    ranks = [processes(script, HOROVOD_RANK=str(rank), **rank_settings) for rank in range(2)]
    for rank in ranks:
        rank.end()


def test_a_start_that_fails_keeps_the_secret_for_the_next(processes, rank_settings):
    script = """
        os.environ["HOROVOD_CYCLE_TIME"] = "never"
        try:
            basics.init()
        except ValueError:
            del os.environ["HOROVOD_CYCLE_TIME"]
        assert "_HOROVOD_SECRET_KEY" not in os.environ
        basics.init()
        basics.shutdown()
    """
    ranks = [processes(script, HOROVOD_RANK=str(rank), **rank_settings) for rank in range(2)]
    for rank in ranks:
        rank.end()


# The global lock --------------------------------------------------------------------------------


def test_other_threads_run_while_a_client_waits(processes):
    """The rendezvous server answers late: its process is stopped for a moment."""
    server = processes(
        """
        secret = _core.make_secret()
        server = _core.rendezvous_start(secret, "127.0.0.1", False)
        print(_core.rendezvous_port(server), secret, flush=True)
        hear("end")
        """
    )
    port, secret = server.line().split()
    calls = [
        (_core.rendezvous_set, "key", b"value"),
        (_core.rendezvous_add, "number", 1),
        (_core.rendezvous_delete, "key"),
    ]
    client = _core.rendezvous_connect(f"127.0.0.1:{port}", secret, False, 20.0)
    for call, *args in calls:
        server.freeze()
        # If the call kept the GIL, the timer could not resume the server, and the call would fail
        # after its time limit.
        timer = threading.Timer(0.3, server.process.send_signal, [signal.SIGCONT])
        timer.start()
        call(client, *args)
        timer.join()
    server.say("end")
    server.end()
