# SPDX-License-Identifier: Apache-2.0
"""horovod.spark.run and HorovodRunner on a real Spark, with two executors of one task each."""

import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types

import cloudpickle
import horovod.spark
import pytest
import spark_session
from horovod.runner import output
from horovod.spark import cluster, runner
from horovod.spark import output as spark_output
from horovod.spark.common.backend import SparkBackend
from horovod.spark.protocol import TaskLocation, assign_ranks
from processes import is_alive, parent_of, wait_until
from sparkdl import HorovodRunner

pytestmark = pytest.mark.timeout(240)
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors have no such module


@pytest.fixture(scope="module")
def spark():
    # Four cores, and two per task: code that counts cores would ask for twice as many tasks as fit.
    settings = {"spark.task.cpus": "2"}
    with spark_session.session("local-cluster[2,2,1024]", settings) as session:
        yield session


def test_ranks_go_host_by_host_and_that_of_task_0_comes_first():
    locations = [TaskLocation(host, host, 0) for host in "bacab"]
    assignments = assign_ranks(locations)
    assert [assignment.rank for assignment in assignments] == [0, 2, 4, 3, 1]
    assert [assignment.local_rank for assignment in assignments] == [0, 0, 0, 1, 1]
    assert [assignment.local_size for assignment in assignments] == [2, 2, 1, 2, 2]
    assert [(assignment.cross_rank, assignment.cross_size) for assignment in assignments] == [
        (0, 3),
        (1, 3),
        (2, 3),
        (1, 2),
        (0, 2),
    ]


def test_every_rank_trains_and_returns_its_result(spark, monkeypatch):
    monkeypatch.setenv("ONLY_OF_THE_DRIVER", "1")
    monkeypatch.setenv("HOROVOD_TLS", "1")  # an executor that had not heard of it would not get in

    def train(factor, offset=0):
        import os
        import subprocess

        import numpy as np
        from horovod.common import arrays, basics

        basics.init()
        total = arrays.allreduce(np.full(3, float(basics.rank() + 1)), op=basics.Sum)
        assignment = basics.rank(), basics.size(), basics.local_rank(), basics.local_size()
        settings = [os.environ.get(name) for name in ("GIVEN", "HOME", "ONLY_OF_THE_DRIVER")]
        settings.append(os.environ["PYTHONPATH"].split(":")[0])
        left = subprocess.Popen(["setsid", "sleep", "300"])
        print(f"rank {basics.rank()} ä\r\n", end="")
        return assignment, (factor * total + offset).tolist(), settings, left.pid

    out, err = io.StringIO(), io.StringIO()
    env = {"GIVEN": "yes", "HOME": None, "PYTHONPATH": "/of/the/caller"}
    results = horovod.spark.run(
        train, args=(2,), kwargs={"offset": 1}, num_proc=2, env=env, stdout=out, stderr=err
    )
    assert [assignment for assignment, _, _, _ in results] == [(0, 2, 0, 2), (1, 2, 1, 2)]
    assert [values for _, values, _, _ in results] == [[7.0] * 3] * 2
    assert not any(is_alive(pid) for _, _, _, pid in results)
    assert [settings for _, _, settings, _ in results] == [
        ["yes", None, None, "/of/the/caller"]
    ] * 2
    lines = sorted(out.getvalue().splitlines())
    assert lines == ["[0]<stdout>:rank 0 ä", "[1]<stdout>:rank 1 ä"], (lines, err.getvalue())


def test_an_exception_comes_back_with_its_rank_and_traceback_and_the_next_run_works(spark):
    def fails_on_one():
        from horovod.common import basics

        basics.init()
        if basics.rank() == 1:
            raise KeyError("no such column")
        import numpy as np
        from horovod.common import arrays

        arrays.allreduce(np.zeros(1))

    with pytest.raises(RuntimeError, match=r"rank 1 on host [\s\S]*in fails_on_one") as raised:
        horovod.spark.run(fails_on_one, num_proc=2)
    assert isinstance(raised.value.__cause__, KeyError)

    def dies():
        import os
        import signal

        import numpy as np
        from horovod.common import arrays, basics

        basics.init()
        if basics.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        arrays.allreduce(np.zeros(1))  # fails, which is not the cause

    started = time.monotonic()
    with pytest.raises(RuntimeError, match=r"Process name: 1.*SIGKILL"):
        horovod.spark.run(dies, num_proc=2)
    assert time.monotonic() - started < 40
    assert horovod.spark.run(lambda: 5, num_proc=2) == [5, 5]


def test_executors_that_may_yet_come_are_waited_for(monkeypatch):
    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.now += seconds

    class Slow(cluster.Driver):
        """Has a slot after 30 s and a second one `pause` seconds later."""

        def __init__(self, pause=30, **settings):
            self._conf = {f"spark.{name}": value for name, value in settings.items()}
            self.pause = pause
            self.clock = Clock()
            monkeypatch.setattr(cluster, "time", self.clock)

        def slots(self):
            return (self.clock.now >= 30) + (self.clock.now >= 30 + self.pause)

        def _age(self):
            return self.clock.now

        @property
        def _context(self):
            return types.SimpleNamespace(defaultParallelism=16)

    Slow().check_slots(1, 600)  # the first one has longer
    with pytest.raises(RuntimeError, match="1 task slots, but 2 processes"):
        Slow().check_slots(2, 600)
    Slow(**{"cores.max": "2"}).check_slots(2, 600)  # settings promise it
    with pytest.raises(RuntimeError, match="0 task slots, but 2 processes"):
        Slow(**{"cores.max": "2"}).check_slots(2, 20)

    # Without num_proc, all slots count that appear soon after each other, or that settings promise.
    assert Slow(pause=1).default_size() == 2
    assert Slow(pause=9).default_size() == 1
    assert Slow(pause=9, **{"cores.max": "2"}).default_size() == 2
    assert Slow(pause=30, **{"cores.max": "2"}).default_size() == 1
    assert (
        Slow(**{"cores.max": "9", "task.cpus": "2"}).default_size(deadline=20) == 4
    )  # to wait for
    old = Slow()
    old.clock.now = 70
    assert (old.default_size(), old.clock.now) == (2, 70)
    silent = Slow(**{"task.cpus": "4"})
    silent.slots = lambda: None
    assert silent.default_size() == 4


def test_a_function_that_calls_exit_has_no_result(spark):
    def leaves(code):
        import os
        import sys

        if os.environ["HOROVOD_RANK"] == "1":
            sys.exit(code)

    with pytest.raises(RuntimeError, match="no result of rank 1"):
        horovod.spark.run(leaves, args=(0,), num_proc=2)
    with pytest.raises(RuntimeError, match=r"Process name: 1, .* with exit code 255"):
        horovod.spark.run(leaves, args=(-1,), num_proc=2)


def test_ranks_that_never_stop_writing_are_ended_with_the_others(spark, monkeypatch):
    monkeypatch.setattr(runner, "END_SECONDS", 1.0)
    monkeypatch.setattr(spark_output, "REST_SECONDS", 1.0)

    def writes():
        import os

        if os.environ["HOROVOD_RANK"] == "1":
            raise KeyError("the cause")
        while True:
            print("x" * 10_000)

    class Slow(io.StringIO):
        def write(self, text):
            time.sleep(0.01)
            return super().write(text)

    with pytest.raises(RuntimeError, match="rank 1 on host"):
        horovod.spark.run(writes, num_proc=2, stdout=Slow())


def test_a_shell_shows_lines_of_ranks_as_they_are_and_they_are_in_the_logs(
    spark, monkeypatch, capsys
):
    def hello(number):
        import os
        import sys
        import time

        rank = os.environ["HOROVOD_RANK"]
        sys.stdout.write("Hello, ")
        sys.stdout.flush()
        time.sleep(0.2)  # for the other rank
        print(f"rank = {rank}, magic_number = {number}")
        print(f"rank {rank} warns", file=sys.stderr)

    lines = [f"Hello, rank = {rank}, magic_number = 42" for rank in (0, 1)]
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    horovod.spark.run(hello, args=(42,), num_proc=2)
    assert sorted(capsys.readouterr().out.splitlines()) == lines
    logs = pathlib.Path(spark_session.HOME, "work", spark.sparkContext.applicationId)

    def logged():
        texts = [path.read_text().splitlines() for path in logs.glob("*/stderr")]
        return [line for text in texts for line in text if "Hello" in line or "warns" in line]

    expected = sorted([*lines, "rank 0 warns", "rank 1 warns"])
    wait_until(lambda: len(logged()) >= 4)
    assert sorted(logged()) == expected


WRITES_LINES_IN_PIECES = r"""
import sys
from horovod.spark.task.executor_log import Log
log, letter = Log(fd=1), sys.argv[1].encode()
for _ in range(40):
    for piece in (letter * 10_000, letter * 10_000 + b"\n"):
        log.add(piece)
log.add(letter + b"\xff")
log.add(b"")
"""


def test_lines_of_ranks_that_share_a_log_are_whole():
    """Also lines that are longer than an atomic write to a pipe, and bytes that are not text."""
    command = [sys.executable, "-c", WRITES_LINES_IN_PIECES]
    both = '"$@" a & "$@" b & wait'
    done = subprocess.run(
        ["sh", "-c", both, "sh", *command], capture_output=True, timeout=60, check=True
    )
    lines = done.stdout.split(b"\n")
    for letter in (b"a", b"b"):
        own = [line for line in lines if line.startswith(letter)]
        assert own == [letter * 20_000] * 40 + [letter + b"\xff"], done.stderr
    assert len(lines) == 2 * 41 + 1


def test_executors_without_horovod_are_reported(spark, monkeypatch, tmp_path):
    python = tmp_path / "python"
    only_spark = 'PYTHONPATH=$(echo "$PYTHONPATH" | tr : "\\n" | grep pyspark | paste -sd:)'
    python.write_text(f'#!/bin/sh\n{only_spark} exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.raises(RuntimeError, match=r"No module named 'horovod'; install horovod on"):
        horovod.spark.run(print, num_proc=2)


def test_a_backend_runs_with_the_variables_of_the_driver_or_with_its_own(
    spark, monkeypatch, capsys
):
    monkeypatch.setattr(cluster, "SETTLE_SECONDS", 0)  # all executors are there
    names = ("OF_THE_DRIVER", "OF_THE_BACKEND", "OF_THE_CALL", "CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("OF_THE_DRIVER", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")

    def settings(factor, names):
        import os

        print("only in the logs")
        return factor * int(os.environ["HOROVOD_RANK"]), [os.environ.get(name) for name in names]

    drivers = SparkBackend(verbose=0)
    assert drivers.num_processes() == 2 < spark.sparkContext.defaultParallelism
    results = drivers.run(settings, (5,), {"names": names}, env={"OF_THE_CALL": "3"})
    assert results == [(5 * rank, ["1", None, "3", None]) for rank in (0, 1)]
    own = SparkBackend(2, env={"OF_THE_BACKEND": "2"}, verbose=0)
    # Subclasses of users read them.
    assert (own._num_proc, own._env, own._kwargs) == (2, {"OF_THE_BACKEND": "2"}, {"verbose": 0})
    assert own.run(settings, (5, names))[1] == (5, [None, "2", None, None])
    assert capsys.readouterr().out == ""  # this is no shell


def test_too_few_slots_are_reported_within_seconds(spark, monkeypatch):
    monkeypatch.setattr(cluster, "SLOT_SECONDS", 0.5)
    with pytest.raises(RuntimeError, match="2 task slots, but 3 processes"):
        horovod.spark.run(lambda: None, num_proc=3)
    with pytest.raises(ValueError, match="above 0"):
        horovod.spark.run(lambda: None, num_proc=0)


def test_a_session_that_a_function_captures_is_named(spark):
    named = r'the variable "spark" that .* captures, of type .*SparkSession'
    with pytest.raises(ValueError, match=named):
        horovod.spark.run(lambda: spark.range(3), num_proc=2)


def sleeps_with_a_child(folder):
    import os
    import pathlib
    import subprocess
    import time

    child = subprocess.Popen(["sleep", "300"])
    path = pathlib.Path(folder) / os.environ["HOROVOD_RANK"]
    path.with_suffix(".part").write_text(f"{os.getpid()} {child.pid}")
    path.with_suffix(".part").rename(path)
    time.sleep(300)


def pids_in(folder):
    wait_until(lambda: len([p for p in folder.iterdir() if p.suffix == ""]) == 2, 60)
    return [int(pid) for path in folder.iterdir() for pid in path.read_text().split()]


def run_aside(folder, **options):
    """A run in a thread, and the list for its error."""
    errors = []

    def work():
        try:
            horovod.spark.run(sleeps_with_a_child, args=(str(folder),), num_proc=2, **options)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, errors


def test_mpirun_starts_ranks_by_a_daemon_in_an_executor(spark):
    def train(factor):
        import os
        import pathlib
        import time

        import numpy as np
        from horovod.common import arrays, basics

        basics.init()
        total = arrays.allreduce(np.full(3, float(basics.rank() + 1)), op=basics.Sum)
        print("one ", end="", flush=True)
        time.sleep(0.5)  # so that mpirun hands on a piece of a line
        print(f"line of {basics.rank()}", flush=True)
        parent = pathlib.Path(f"/proc/{os.getppid()}/comm").read_text().strip()
        # Not in a permanent folder that several runs on a host share.
        is_apart = os.environ["OMPI_FILE_LOCATION"].startswith(os.getcwd())
        return basics.rank(), basics.local_size(), parent, is_apart, (factor * total).tolist()

    out, err = io.StringIO(), io.StringIO()
    options = {"stdout": out, "stderr": err, "env": {"GIVEN": "yes"}, "extra_mpi_args": "-v"}
    results = horovod.spark.run(train, args=(2,), num_proc=2, use_mpi=True, **options)
    assert results == [(rank, 2, "orted", True, [6.0] * 3) for rank in (0, 1)]
    lines = sorted(out.getvalue().splitlines())
    assert lines == ["[0]<stdout>:one line of 0", "[1]<stdout>:one line of 1"], err.getvalue()


def test_a_failure_under_mpirun_tells_its_cause(spark, monkeypatch):
    def fails_on_one():
        import os
        import time

        if os.environ["HOROVOD_RANK"] == "1":
            raise KeyError("no such column")
        time.sleep(60)

    monkeypatch.setattr(runner, "END_SECONDS", 1.0)
    err = io.StringIO()
    with pytest.raises(RuntimeError, match=r"rank 1 on host [\s\S]*in fails_on_one"):
        horovod.spark.run(fails_on_one, num_proc=2, use_mpi=True, stderr=err)
    assert "[1]<stderr>:KeyError" in err.getvalue()
    with pytest.raises(RuntimeError, match="mpirun failed with exit code"):
        horovod.spark.run(print, num_proc=2, use_mpi=True, stderr=err, extra_mpi_args="--nonsense")
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", "/no/such/folder")
        with pytest.raises(RuntimeError, match=r"mpirun could not be run: .*/no/such/folder"):
            horovod.spark.run(print, num_proc=2, use_mpi=True)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="needs mpirun on the driver"):
        horovod.spark.run(print, num_proc=2, use_mpi=True)
    with pytest.raises(ValueError, match="use_mpi=True"):
        horovod.spark.run(print, num_proc=2, extra_mpi_args="-v")


@pytest.mark.parametrize("use_mpi", [False, True])
def test_a_cancelled_job_leaves_no_process(spark, tmp_path, use_mpi):
    thread, errors = run_aside(tmp_path, use_mpi=use_mpi)
    pids = pids_in(tmp_path)
    # The guardians, or mpirun's daemon.
    pids += {parent_of(pid) for pid in pids}
    spark.sparkContext.cancelAllJobs()
    thread.join(60)
    assert errors and "Spark job" in str(errors[0]), errors
    wait_until(lambda: not any(map(is_alive, pids)))


def test_a_killed_executor_fails_the_run_and_leaves_no_process(spark, tmp_path):
    thread, errors = run_aside(tmp_path)
    pids = pids_in(tmp_path)
    executor = pids[0]
    while "java" not in pathlib.Path(f"/proc/{executor}/comm").read_text():
        executor = parent_of(executor)
    os.kill(executor, signal.SIGKILL)
    thread.join(100)
    assert errors and "ExecutorLostFailure" in str(errors[0]), errors
    wait_until(lambda: not any(map(is_alive, pids)))
    assert horovod.spark.run(lambda: 6, num_proc=2) == [6, 6]


def train_and_tell(lr):
    import os

    from sparkdl.horovod import log_to_driver

    print("only in the logs")
    log_to_driver(f"rate {lr} " + "x" * 5000)
    return os.environ["HOROVOD_RANK"], os.environ.get("HOROVOD_TIMELINE")


def test_horovod_runner_returns_the_result_of_rank_0(spark, monkeypatch, capsys):
    monkeypatch.setattr(cluster, "SETTLE_SECONDS", 0)
    monkeypatch.setenv("HOROVOD_TIMELINE", "somewhere.json")
    assert HorovodRunner(np=2).run(train_and_tell, lr=0.25) == ("0", "somewhere.json")
    shown = capsys.readouterr().out
    assert shown.count("rate 0.25") == 2 and "only in the logs" not in shown
    assert max(map(len, shown.splitlines())) == 4000
    with pytest.warns(DeprecationWarning, match="np=0"):
        all_slots = HorovodRunner(0, driver_log_verbosity="all")
        assert all_slots.run(train_and_tell, lr=1)[0] == "0"
    assert capsys.readouterr().out.count("only in the logs") == 2
    with pytest.raises(ValueError, match="driver_log_verbosity"):
        HorovodRunner(np=2, driver_log_verbosity="some")


def test_horovod_runner_below_zero_runs_on_the_driver(monkeypatch, capfd):
    assert horovod.spark.HorovodRunner is HorovodRunner
    monkeypatch.delenv("HOROVOD_TIMELINE", raising=False)
    assert HorovodRunner(np=-2).run(train_and_tell, lr=3) == ("0", None)
    assert capfd.readouterr().out.count("rate 3") == 2


def test_without_a_context_it_says_what_to_do():
    code = "import horovod.spark; horovod.spark.run(lambda: None)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert "make a SparkSession first" in done.stderr


def test_lines_of_ranks_are_whole_and_progress_shows_as_it_moves():
    class Stream(io.StringIO):
        limit = 10**6

        def write(self, text):
            if self.tell() > self.limit:
                raise OSError("no space left")
            return super().write(text)

    stream = Stream()
    lines = output.Lines(stream, "stdout", with_time=False)
    for rank, piece in ((0, "one "), (1, "two\r"), (0, "line\n"), (1, "\nnext"), (0, "a\rb")):
        lines.add(rank, piece)
    shown = "[0]<stdout>:one line\n[1]<stdout>:two\r\n[0]<stdout>:a\r"
    assert stream.getvalue() == shown
    lines.finish()
    assert stream.getvalue() == shown + "[1]<stdout>:next\n[0]<stdout>:b\n"
    for _ in range(3):
        lines.add(2, "x" * output.LONGEST)  # binary data, for example
    assert "[2]<stdout>:" + "x" * output.LONGEST in stream.getvalue()
    stream.limit = 0
    lines.add(0, "lost\n")
    stream.limit = 10**6
    lines.add(0, "and nothing after it\n")
    assert "lost" not in stream.getvalue() and "after" not in stream.getvalue()
    timed = Stream()
    output.Lines(timed, "stderr", with_time=True).add(0, "x\n")
    assert re.fullmatch(
        r"\w{3} \w{3} [\d ]\d \d\d:\d\d:\d\d \d{4}\[0\]<stderr>:x\n", timed.getvalue()
    )


def test_slots_that_settings_ask_for_are_waited_for():
    def promised(**settings):
        from pyspark import SparkConf

        conf = SparkConf(loadDefaults=False)
        return cluster.promised_slots(conf.setAll([(f"spark.{k}", v) for k, v in settings.items()]))

    assert promised() == 0
    assert promised(**{"executor.instances": "3", "executor.cores": "5", "task.cpus": "2"}) == 6
    assert promised(**{"cores.max": "8", "task.cpus": "2"}) == 4
    gpus = {"executor.instances": "3", "executor.cores": "8", "executor.resource.gpu.amount": "2"}
    assert promised(**gpus, **{"task.resource.gpu.amount": "1"}) == 6
    assert promised(**gpus, **{"task.resource.gpu.amount": "2"}) == 3
    assert promised(**gpus, **{"task.resource.gpu.amount": "0.4"}) == 12


def test_devices_are_those_of_the_task(monkeypatch):
    from horovod.spark import protocol, task

    assert task.get_available_devices() == []
    monkeypatch.setenv(protocol.DEVICES, json.dumps(["3"]))
    assert task.get_available_devices() == ["3"]
