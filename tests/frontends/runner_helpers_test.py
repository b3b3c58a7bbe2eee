# SPDX-License-Identifier: Apache-2.0
"""The parts of horovod.runner, except run(), that other libraries import."""

from __future__ import annotations

import importlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from horovod.common import util
from horovod.runner import js_run, launch, mpi_run
from horovod.runner.common.util import (
    codec,
    env,
    guardian,
    host_hash,
    hosts,
    safe_shell_exec,
    secret,
    settings,
    timeout,
    tiny_shell_exec,
)
from horovod.runner.util import threads
from processes import is_alive, wait_until


def places(slots):
    return [(s.hostname, s.rank, s.local_rank, s.local_size, s.cross_rank) for s in slots]


def test_ranks_fill_hosts_in_their_order():
    listed = hosts.parse_hosts("a:2,[::1]:1,b:3")
    slots = hosts.get_host_assignments(listed, 5, 5)
    assert places(slots) == [
        ("a", 0, 0, 2, 0),
        ("a", 1, 1, 2, 0),
        ("::1", 2, 0, 1, 1),
        ("b", 3, 0, 2, 2),
        ("b", 4, 1, 2, 1),
    ]
    assert [slot.cross_size for slot in slots] == [3, 2, 3, 3, 2]
    assert {slot.size for slot in slots} == {5}
    assert len(hosts.get_host_assignments(listed, 2, 4)) == 4
    assert len(hosts.get_host_assignments(listed, 2, 40)) == 6
    # A launcher that uses all slots passes 1 as the minimum.
    assert len(hosts.get_host_assignments(listed, 1)) == 6
    with pytest.raises(ValueError, match="Requested more processes"):
        hosts.get_host_assignments(listed, 7)


def test_lists_and_files_of_hosts_are_read(tmp_path):
    assert hosts.parse_hosts_and_slots("a:1,b-1.x:2,a:1") == (["a", "b-1.x"], {"a": 2, "b-1.x": 2})
    for wrong in ("a", "a:", "a:b", "-a:1", "::1:2", ""):
        with pytest.raises(ValueError, match="accepted is host:slots"):
            hosts.parse_hosts(wrong)
    file = tmp_path / "hosts"
    file.write_text("# all\n\na slots=2\nb:3  # new\nc\n[::1] slots = 4 max_slots=8\n")
    assert hosts.parse_host_files(str(file)) == "a:2,b:3,c:1,[::1]:4"
    file.write_text("a slots=2\nb slots=x\n")
    with pytest.raises(ValueError, match="hosts:2"):
        hosts.parse_host_files(str(file))


def test_a_time_limit_says_what_was_being_done():
    limit = timeout.Timeout(60, "Waited too long to {activity}.")
    assert 0 < limit.remaining() <= 60 and not limit.timed_out()
    limit.check_time_out_for("start")
    limit = timeout.Timeout(0, "Waited too long to {activity}.")
    with pytest.raises(timeout.TimeoutException, match=r"to start\. Timeout after 0 seconds\."):
        limit.check_time_out_for("start")


def test_rank_and_size_are_those_of_the_launcher(monkeypatch):
    for name in ("HOROVOD", "OMPI_COMM_WORLD", "PMI"):
        monkeypatch.delenv(f"{name}_RANK", raising=False)
        monkeypatch.delenv(f"{name}_SIZE", raising=False)
    assert env.get_env_rank_and_size() == (0, 1)
    for name, rank in (("PMI", 3), ("OMPI_COMM_WORLD", 2), ("HOROVOD", 1)):
        monkeypatch.setenv(f"{name}_RANK", str(rank))
        with pytest.raises(RuntimeError, match=f"{name}_SIZE"):
            env.get_env_rank_and_size()
        monkeypatch.setenv(f"{name}_SIZE", "4")
        assert env.get_env_rank_and_size() == (rank, 4)
    stays = ["BASH_FUNC_x", "OLDPWD", "CUDA_VISIBLE_DEVICES", secret.HOROVOD_SECRET_KEY]
    assert not any(env.is_exportable(name) for name in stays) and env.is_exportable("PATH")


def test_only_who_knows_the_secret_makes_its_digest():
    key = secret.make_secret_key()
    digest = secret.compute_digest(key, b"data")
    assert len(key) == secret.SECRET_LENGTH and len(digest) == secret.DIGEST_LENGTH
    assert secret.check_digest(key, b"data", digest)
    assert not secret.check_digest(key, b"date", digest)
    assert not secret.check_digest(secret.make_secret_key(), b"data", digest)


def test_small_helpers():
    assert codec.loads_base64(codec.dumps_base64({"f": lambda: 3}))["f"]() == 3
    assert host_hash.host_hash() == host_hash.host_hash() != host_hash.host_hash("salt")
    given = settings.Settings(hosts="a:1", num_proc=1, nics={"lo"})
    assert (given.hosts, given.num_proc, given.nics, given.elastic) == ("a:1", 1, {"lo"}, False)
    assert tiny_shell_exec.execute("echo out; echo err >&2; exit 3") == ("out\nerr\n", 3)
    calls = []
    cached = util._cache(lambda *args: calls.append(args) or len(calls))
    assert [cached(1), cached(1), cached(2)] == [1, 1, 2]


def test_a_front_end_is_available_with_its_framework(monkeypatch, tmp_path, capsys):
    for framework in ("torch", "mxnet"):
        (tmp_path / f"{framework}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert util.extension_available("torch", verbose=True)
    assert not util.extension_available("mxnet", verbose=True)
    assert "there is no horovod.mxnet\n" in capsys.readouterr().out
    assert not util.extension_available("no_such_framework")


@pytest.mark.parametrize(
    ("module", "remedy"),
    [("gloo_run", "horovod.run"), ("http.http_server", "run a rendezvous server")],
)
def test_a_module_that_is_not_available_names_the_remedy(module, remedy):
    text = f"horovod.runner.{module} is (no longer available|not available yet): .*{remedy}"
    with pytest.raises(ImportError, match=text):
        importlib.import_module(f"horovod.runner.{module}")


def test_a_network_namespace_is_a_host_of_its_own():
    tell = [sys.executable, "-c", f"from {host_hash.__name__} import host_hash; print(host_hash())"]
    here = subprocess.run(tell, capture_output=True, text=True, check=True, timeout=60)
    assert here.stdout.strip() == host_hash.host_hash()
    there = subprocess.run(
        ["unshare", "--net", *tell], capture_output=True, text=True, check=False, timeout=60
    )
    if there.returncode != 0:
        pytest.skip(f"network namespaces are not permitted here: {there.stderr.strip()}")
    assert there.stdout.strip() != host_hash.host_hash()


def test_implementations_of_mpi_are_detected(tmp_path):
    kinds = {
        "mpirun (Open MPI) 4.1.4": mpi_run.is_open_mpi,
        "mpirun (IBM Spectrum MPI) 10.3, from Open MPI": mpi_run.is_spectrum_mpi,
        "HYDRA build details": mpi_run.is_mpich,
        "Intel(R) MPI Library, HYDRA": mpi_run.is_intel_mpi,
    }
    program = tmp_path / "mpirun"
    where = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for text, wanted in kinds.items():
        program.write_text(f"#!/bin/sh\necho '{text}'\n")
        program.chmod(0o755)
        assert mpi_run.mpi_available(where)
        assert [kind for kind in kinds.values() if kind(where)] == [wanted]
    program.write_text("#!/bin/sh\nexit 1\n")
    assert not mpi_run.mpi_available(where)


def test_horovodrun_starts_ranks_itself_unless_a_flag_or_lsf_says_otherwise(tmp_path, monkeypatch):
    for name in ("LSB_JOBID", "CSM_ALLOCATION_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert launch.is_gloo_used() and launch.is_gloo_used(use_gloo=True)
    assert not launch.is_gloo_used(use_mpi=True) and not launch.is_gloo_used(use_jsrun=True)
    monkeypatch.setenv("LSB_JOBID", "1")
    monkeypatch.setenv("CSM_ALLOCATION_ID", "2")
    assert launch.is_gloo_used() and not js_run.is_jsrun_installed()
    (tmp_path / "jsrun").write_text("#!/bin/sh\n")
    (tmp_path / "jsrun").chmod(0o755)
    assert js_run.is_jsrun_installed() and not launch.is_gloo_used()
    assert launch.is_gloo_used(use_gloo=True)
    monkeypatch.delenv("CSM_ALLOCATION_ID")
    assert launch.is_gloo_used()


# Threads ----------------------------------------------------------------------------------------


def test_results_of_threads_come_back_by_place():
    def square(x, gate=threading.Barrier(2)):  # noqa: B008
        gate.wait(10)  # two run at a time
        return x * x

    squares = threads.execute_function_multithreaded(
        square, [(x,) for x in range(4)], max_concurrent_executions=2
    )
    assert squares == {0: 0, 1: 1, 2: 4, 3: 9}
    with pytest.raises(ZeroDivisionError):
        threads.execute_function_multithreaded(lambda x: 1 // x, [(1,), (0,)])


def test_an_event_calls_a_function_unless_stopped():
    event, stop, called = threading.Event(), threading.Event(), []
    ready = threads.on_event(event, called.append, (1,), stop=stop, check_stop_interval_s=0.01)
    event.set()
    ready.join(10)
    event.clear()
    stopped = threads.on_event(event, called.append, (2,), stop=stop, check_stop_interval_s=0.01)
    stop.set()
    stopped.join(10)
    assert not stopped.is_alive()
    event.set()
    assert called == [1]
    with pytest.raises(ValueError, match="Event must not be None"):
        threads.on_event(None, print)
    with pytest.raises(ValueError, match="Stop event must be given"):
        threads.on_event(event, print, daemon=False)
    with pytest.raises(ValueError, match="args must be a tuple"):
        threads.on_event(event, print, [1])


# Commands ---------------------------------------------------------------------------------------


def execute(command, **options):
    out, err = io.StringIO(), io.StringIO()
    code = safe_shell_exec.execute(command, stdout=out, stderr=err, **options)
    return code, out.getvalue(), err.getvalue()


def test_a_command_gives_its_code_and_its_lines():
    assert execute("echo $WORD; exit 3", env={"WORD": "x"}) == (3, "x\n", "")
    assert execute(["printf", r"a\rb\nc"], index=1) == (
        0,
        "[1]<stdout>:a\r[1]<stdout>:b\n[1]<stdout>:c\n",
        "",
    )
    code, _, err = execute("kill -9 $$", prefix_output_with_timestamp=True)
    assert (code, err) == (128 + signal.SIGKILL, "")
    code, _, err = execute("echo x >&2", index=0, prefix_output_with_timestamp=True)
    assert code == 0 and err.endswith("[0]<stderr>:x\n") and str(time.localtime().tm_year) in err
    assert execute(["no-such-command"])[0] == 127


def test_an_event_ends_a_command_with_what_it_has_started(tmp_path):
    pids = tmp_path / "pids"
    event = threading.Event()
    # Two processes outlive their shell: one ends slowly, and the other is in its own session and
    # must be killed.
    late = f"sleep 0.3; echo ended >> {pids}; exit"
    slow = f"""sh -c 'trap "{late}" TERM; echo $$ >> {pids}; sleep 600 & wait' &"""
    stubborn = f"""setsid sh -c 'trap "" TERM; echo $$ >> {pids}; exec sleep 601'"""
    command = f"sleep 600 & echo $! >> {pids}; {slow} {stubborn}; true"
    done = []
    thread = threads.in_thread(lambda: done.append(execute(command, events=[event])))
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    event.set()
    thread.join(20)
    assert done and done[0][0] > 128
    *numbers, last = pids.read_text().split()
    assert last == "ended"
    wait_until(lambda: not any(is_alive(int(pid)) for pid in numbers))


def test_the_guardian_finds_children_whatever_their_names(tmp_path):
    sleep = tmp_path / "éééééééééé"  # of which the kernel keeps 15 bytes, seven and a half
    sleep.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(sleep), "600"])
    try:
        wait_until(lambda: b"\xc3)" in pathlib.Path(f"/proc/{child.pid}/stat").read_bytes())
        assert child.pid in guardian.descendants()
    finally:
        child.kill()
        child.wait()


def test_a_command_does_not_outlive_a_killed_caller(tmp_path):
    pid = tmp_path / "pid"
    code = f"""
from horovod.runner.common.util import safe_shell_exec
safe_shell_exec.execute("echo $$ > {pid}; exec sleep 600")
"""
    caller = subprocess.Popen([sys.executable, "-c", code])
    wait_until(lambda: pid.exists() and pid.read_text().strip())
    assert is_alive(int(pid.read_text()))
    os.kill(caller.pid, signal.SIGKILL)
    caller.wait()
    wait_until(lambda: not is_alive(int(pid.read_text())))
