# SPDX-License-Identifier: Apache-2.0
"""horovodrun on one host with real processes: output, exit codes, and that no process is left after
a job, however it ends."""

import contextlib
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import native
import pytest

HOROVODRUN = native.BUILD / "launcher" / "horovodrun"
# Marks the processes of a job: all of them inherit this variable.
MARK = "HVD_TEST_JOB"
# Limit in seconds for steps that take milliseconds on an idle machine. Ranks sleep for 60 s, and
# ranks that ignore SIGTERM are killed after 5 s.
SOON = 4.5
TIMEOUT = 30


@pytest.fixture(autouse=True)
def needs():
    if not HOROVODRUN.exists():
        pytest.fail(f"{HOROVODRUN} is missing: make build-dev")


class Job:
    """A running launcher and the processes of its job."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None, **options):
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.process = subprocess.Popen(
            [str(HOROVODRUN), *arguments],
            env={**os.environ, MARK: self.mark, **(env or {})},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **{"stdout": subprocess.PIPE, **options},
        )

    def pids(self) -> list[int]:
        """The pids of all live processes of the job, including the launcher."""
        found = []
        for folder in pathlib.Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                marked = f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
                if marked and (folder / "stat").read_text().rsplit(")")[1].split()[0] != "Z":
                    found.append(int(folder.name))
        return found

    def wait_for_line(self, text: str) -> None:
        """Reads standard output up to a line that contains `text`."""
        for line in self.process.stdout:
            if text in line.decode(errors="replace"):
                return
        raise AssertionError(f"no {text!r}: {self.process.stderr.read().decode()}")

    def finish(self, timeout: float = TIMEOUT) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out.decode(), err.decode()

    def seconds_until_gone(self, limit: float = TIMEOUT) -> float:
        start = time.monotonic()
        while left := self.pids():
            assert time.monotonic() - start < limit, f"still there: {left}"
            time.sleep(0.02)
        return time.monotonic() - start


@pytest.fixture
def launch():
    jobs = []

    def start(*arguments, **options):
        jobs.append(Job(*arguments, **options))
        return jobs[-1]

    yield start
    for job in jobs:
        for pid in job.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        job.process.communicate()


def run(launch, *arguments, **options) -> tuple[int, str, str]:
    return launch(*arguments, **options).finish()


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


# ---- Starting ------------------------------------------------------------------------------------


def test_every_rank_runs_once_with_its_rank_variables(launch):
    names = ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "HOSTNAME"]
    script = "echo " + " ".join(f"$HOROVOD_{name}" for name in names)
    code, out, err = run(launch, "-np", "3", "-H", "localhost:8", *sh(script))
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [
        f"[{rank}]<stdout>:{rank} 3 {rank} 3 0 1 localhost" for rank in range(3)
    ]


def test_the_secret_is_in_no_command_line_and_the_rendezvous_server_on_loopback(launch):
    job = launch("-np", "2", *sh("echo up $_HOROVOD_SECRET_KEY $HOROVOD_RENDEZVOUS; sleep 60"))
    secret, store = job.process.stdout.readline().decode().split()[1:]
    assert len(secret) == 44
    assert store.startswith("127.0.0.1:")
    for pid in job.pids():
        with contextlib.suppress(OSError):
            assert secret.encode() not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()


RANKS_MEET = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import native
library = native.load()
assert library.hvd_init(None) == 0, library.hvd_error()
print(f"met {library.horovod_rank()} {library.horovod_size()}", flush=True)
library.hvd_shutdown()
"""


@pytest.mark.parametrize("tls", ["0", "1"], ids=["plain", "tls"])
def test_ranks_find_each_other(launch, tls):
    tests = str(native.ROOT / "tests")
    command = [sys.executable, "-c", RANKS_MEET, tests]
    code, out, err = run(launch, "-np", "4", *command, env={"HOROVOD_TLS": tls})
    assert code == 0, err
    assert sorted(out.splitlines()) == [f"[{rank}]<stdout>:met {rank} 4" for rank in range(4)]


def test_ranks_of_mpirun_find_each_other_and_its_exit_code_is_ours(launch):
    tests = str(native.ROOT / "tests")
    mpi = ["--mpi", "--mpi-args=--oversubscribe", "-np", "3"]
    code, out, err = run(launch, *mpi, sys.executable, "-c", RANKS_MEET, tests)
    assert code == 0, err
    assert sorted(re.findall(r"met \d 3", out)) == [f"met {rank} 3" for rank in range(3)]
    code, _, err = run(launch, *mpi, *sh("exit 7"))
    assert code == 7, err


# Reports to be MPICH, then prints the variables and arguments that it was given.
FAKE_MPIRUN = f"""#!{sys.executable}
import sys
if sys.argv[1] == "--version":
    sys.exit(print("HYDRA build details:"))
variables = open("/proc/self/environ").read().split("\\0")[:-1]
secret = next(each for each in variables if each.startswith("_HOROVOD_SECRET_KEY="))
print(variables[-1].split("=")[0], len(secret), secret.split("=", 1)[1] in sys.argv)
"""


def test_mpirun_gets_the_secret_as_a_variable_that_is_not_the_last(launch, tmp_path):
    """MPICH 4.0 drops the last variable for ranks on other hosts."""
    (tmp_path / "mpirun").write_text(FAKE_MPIRUN)
    (tmp_path / "mpirun").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "_HOROVOD_LAST_VARIABLE": "of another job"}
    code, out, err = run(launch, "--mpi", "-np", "2", "true", env=env)
    assert (code, out) == (0, "_HOROVOD_LAST_VARIABLE 64 False\n"), err


def programs(folder: pathlib.Path, **scripts: str) -> dict[str, str]:
    """Creates programs with these names; returns an environment whose PATH starts with them."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_jsrun_gets_a_rank_file_that_is_deleted_afterwards(launch, tmp_path):
    env = programs(
        tmp_path,
        csm_allocation_query="echo 'compute_nodes:'; echo ' - c1'; echo ' - c2'",
        csm_node_attributes_query="echo 'discovered_cores: 4'; echo 'discovered_gpus: 1'",
        lscpu="echo 'Thread(s) per core: 2'",
        jsrun='[ "$1" = --version ] && exit; echo "$2" "$3"; cat "$2"; exit 5',
    )
    env |= {"LSB_JOBID": "7", "CSM_ALLOCATION_ID": "5", "TMPDIR": str(tmp_path)}
    code, out, err = run(launch, "train", env=env)
    assert code == 5, err
    path, command = out.splitlines()[0].split()
    assert command == "train"
    assert "rank: 1: { hostname: c2; cpu: {0-7} ; gpu: * ; mem: * }\n" in out
    assert path.startswith(str(tmp_path))
    assert not os.path.exists(path)


def test_the_doctor_reports_the_supported_frameworks(launch, tmp_path):
    for package in ["torch", "jax", "horovod", "horovod/torch"]:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    env = {"PYTHONPATH": str(tmp_path)}
    _, out, err = run(launch, "--doctor", "-H", "localhost:1", env=env)
    assert "(horovod.torch)" in out, err
    assert re.search(r"jax \S+( version\))? \(not served by this build\)", out), out


MISTAKES = {
    "unknown flag": ["--no-such-flag"],
    "malformed host": ["-H", "localhost"],
    "more processes than slots": ["-H", "localhost:1"],
    "two lists of hosts": ["-H", "localhost:2", "--hostfile", "/dev/null"],
    "negative knob": ["--cycle-time-ms", "-1"],
    "unreadable file": ["--config-file", "/no/such/file"],
    "no place for output": ["--output-filename", "/dev/null/out"],
}


@pytest.mark.parametrize("flags", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line_and_exit_code_2_and_nothing_starts(launch, flags):
    code, out, err = run(launch, "-np", "2", *flags, "echo", "started")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"horovodrun: .+\n", err), err


WRONG_SETTINGS = {
    "HOROVOD_ALLREDUCE_ALGORITHM": "maybe",
    "HOROVOD_TIMELINE": "/no/such/directory/timeline.json",
    "HOROVOD_NETWORK_INTERFACES": "nosuch0",
}


@pytest.mark.parametrize("variable", WRONG_SETTINGS)
def test_a_setting_that_no_rank_accepts_is_named_and_nothing_starts(launch, variable):
    wrong = {variable: WRONG_SETTINGS[variable]}
    code, out, err = run(launch, "-np", "2", "echo", "started", env=wrong)
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"horovodrun: {variable}.+\n", err), err
    assert WRONG_SETTINGS[variable] in err


def run_in_namespaces(flags: list[str], prepare: str, *arguments: str) -> tuple[int, str, str]:
    """Runs horovodrun in namespaces of unshare(1), after the shell commands in `prepare`."""
    command = ["unshare", *flags, "sh", "-c", f'{prepare} && echo prepared >&2 && exec "$@"', "sh"]
    done = subprocess.run(
        [*command, str(HOROVODRUN), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if not done.stderr.startswith("prepared\n"):
        pytest.skip(f"namespaces are not permitted here: {done.stderr.strip()}")
    return done.returncode, done.stdout, done.stderr.removeprefix("prepared\n")


def test_without_proc_it_reports_what_is_missing():
    code, out, err = run_in_namespaces(
        ["--mount"], "mount -t tmpfs none /proc", "-np", "2", "echo", "started"
    )
    assert (code != 0, out) == (True, "")
    assert "/proc/self/exe" in err
    assert "not installed" not in err


def test_ranks_find_each_other_where_loopback_has_ipv6_alone():
    prepare = "ip link set lo up && ip address flush dev lo && ip address add ::1/128 dev lo"
    command = [sys.executable, "-c", RANKS_MEET, str(native.ROOT / "tests")]
    code, out, err = run_in_namespaces(["--net"], prepare, "-np", "2", *command)
    assert code == 0, err
    assert sorted(out.splitlines()) == [f"[{rank}]<stdout>:met {rank} 2" for rank in range(2)]


def test_it_starts_without_standard_streams_home_and_writable_directory(launch, tmp_path):
    """Descriptors opened later must not get the numbers of the closed streams."""
    folder = tmp_path / "out"
    script = 'unset HOME; cd /proc; exec "$@" <&- >&- 2>&-'
    command = [str(HOROVODRUN), "-np", "2", "--output-filename", str(folder)]
    closed = ["sh", "-c", script, "sh", *command, *sh("echo $HOROVOD_RANK; sleep 0.3; pwd >&2")]
    assert subprocess.run(closed, timeout=TIMEOUT, check=False).returncode == 0
    for rank in range(2):
        assert (folder / f"rank.{rank}" / "stdout").read_text() == f"[{rank}]<stdout>:{rank}\n"
        assert (folder / f"rank.{rank}" / "stderr").read_text() == f"[{rank}]<stderr>:/proc\n"


@pytest.mark.parametrize(
    ("flags", "stream", "code"),
    [(["--help"], "stdout", 1), (["--no-such-flag"], "stderr", 2)],
    ids=["stdout", "stderr"],
)
def test_a_full_disk_under_its_own_messages_is_an_exit_code(flags, stream, code):
    with open("/dev/full", "w") as full:
        done = subprocess.run([HOROVODRUN, *flags], **{stream: full}, timeout=TIMEOUT, check=False)
    assert done.returncode == code


# The script of the Kubernetes MPI operator with a fake kubectl, which, like the real one, forwards
# standard input only with -i.
KUBEXEC = """#!/bin/sh
POD_NAME=$1
shift
{folder}/kubectl exec ${{POD_NAME}} -- /bin/sh -c "$*"
"""
KUBECTL = """#!/bin/sh
[ "$2" = -i ] || exec < /dev/null
while [ "$1" != -- ]; do shift; done
shift
{run}
"""


def kubernetes(folder: pathlib.Path, run: str = 'exec "$@"') -> dict[str, str]:
    """The environment of a pod whose hosts are reached by a fake kubectl that executes `run`."""
    for name, text in (("kubexec.sh", KUBEXEC), ("kubectl", KUBECTL)):
        (folder / name).write_text(text.format(folder=folder, run=run))
        (folder / name).chmod(0o755)
    (folder / "hosts").write_text("w-0.invalid slots=1\n\n# more\nw-1.invalid slots=2\n")
    return {
        "OMPI_MCA_plm_rsh_agent": str(folder / "kubexec.sh"),
        "OMPI_MCA_orte_default_hostfile": str(folder / "hosts"),
    }


def test_pods_of_the_mpi_operator_are_its_hosts(launch, tmp_path):
    script = "echo $HOROVOD_RANK $HOROVOD_LOCAL_RANK $HOROVOD_HOSTNAME $CUDA_VISIBLE_DEVICES"
    env = kubernetes(tmp_path, 'echo welcome; unset CUDA_VISIBLE_DEVICES; exec "$@"')
    code, out, err = run(launch, *sh(script), env=env | {"CUDA_VISIBLE_DEVICES": "7"})
    assert code == 0, err
    places = ["0 0 w-0.invalid", "1 0 w-1.invalid", "2 1 w-1.invalid"]
    assert sorted(out.splitlines()) == [f"[{i}]<stdout>:{place}" for i, place in enumerate(places)]
    assert sorted(err.splitlines()) == ["w-0.invalid: welcome", "w-1.invalid: welcome"]


# Sends the first message of an agent, with another version.
OTHER_VERSION = """
import hashlib, hmac, subprocess, sys
said = subprocess.run([sys.argv[1], "--agent"], input=b"", capture_output=True)
mark, rest = said.stdout.split(b"\\2\\n", 1)
size = int.from_bytes(rest[:4], "little")
payload = rest[4:4 + size].replace(sys.argv[2].encode(), b"0.0.1")
head = len(payload).to_bytes(4, "little")
tag = hmac.new(bytes(32), bytes(8) + head + payload, hashlib.sha256).digest()[:16]
sys.stdout.buffer.write(mark + b"\\2\\n" + head + payload + tag)
sys.stdout.flush()
sys.stdin.read()
"""


def test_a_host_with_another_version_is_reported_and_nothing_starts(launch, tmp_path):
    _, version, _ = run(launch, "--version")
    (tmp_path / "other.py").write_text(OTHER_VERSION)
    other = f"exec {sys.executable} {tmp_path}/other.py {HOROVODRUN} {version.strip()}"
    env = kubernetes(tmp_path, other)
    job = launch("-np", "3", "echo", "started", env=env)
    code, out, err = job.finish()
    assert (code, out) == (1, "")
    for host in ("w-0.invalid", "w-1.invalid"):
        assert f"host {host}: it has version 0.0.1 of horovodrun, this one is {version}"[:-1] in err
    assert "nothing was started" in err
    job.seconds_until_gone(limit=SOON)
    code, out, _ = run(launch, "--doctor", env=env)
    assert (code, out.count("[!!] it has version 0.0.1 of horovodrun")) == (1, 2)


def test_a_missing_command_is_named(launch):
    code, out, err = run(launch, "-np", "2", "no-such-command-here")
    assert (code, out) == (1, "")
    assert 'host localhost: there is no command "no-such-command-here" in PATH' in err


# ---- Output --------------------------------------------------------------------------------------


def test_lines_carry_their_rank_and_stream_and_a_last_one_gets_its_newline(launch):
    script = r"cat; printf 'a\nb\rc'; printf 'x\ny' >&2"  # standard input is empty
    code, out, err = launch("-np", "1", *sh(script)).finish()
    assert code == 0
    assert out == "[0]<stdout>:a\n[0]<stdout>:b\r[0]<stdout>:c\n"
    assert err == "[0]<stderr>:x\n[0]<stderr>:y\n"


def test_garbage_passes_byte_for_byte(launch):
    write = "import os; os.write(1, bytes(range(256)) * 3)"
    job = launch("-np", "1", sys.executable, "-c", write)
    out, _ = job.process.communicate(timeout=TIMEOUT)
    assert out.replace(b"[0]<stdout>:", b"") == bytes(range(256)) * 3 + b"\n"


def test_timestamps_are_before_the_rank(launch):
    code, out, _ = run(launch, "-np", "1", "--prefix-output-with-timestamp", "echo", "hi")
    assert code == 0
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[0\]<stdout>:hi\n", out)


def test_files_hold_what_each_rank_has_written(launch, tmp_path):
    folder = tmp_path / "a" / "b"
    script = "echo out $HOROVOD_RANK; echo err $HOROVOD_RANK >&2"
    code, _, _ = run(launch, "-np", "11", "--output-filename", str(folder), *sh(script))
    assert code == 0
    assert len(list(folder.iterdir())) == 11
    for rank in (0, 10):
        for stream, word in (("stdout", "out"), ("stderr", "err")):
            text = (folder / f"rank.{rank:02}" / stream).read_text()
            assert text == f"[{rank}]<{stream}>:{word} {rank}\n"


@pytest.mark.parametrize(
    ("wish", "shown"),
    [("", b"\x1b[36m[0]<stdout>:\x1b[0mout\r\n"), ("1", b"[0]<stdout>:out\r\n")],
    ids=["colours", "NO_COLOR"],
)
def test_ranks_have_colours_on_a_terminal_only(launch, tmp_path, wish, shown):
    terminal, end = os.openpty()
    command = ["-np", "1", "--output-filename", str(tmp_path), *sh("echo out; echo err >&2")]
    job = launch(*command, stdout=end, env={"NO_COLOR": wish})
    os.close(end)
    assert job.process.wait(timeout=TIMEOUT) == 0
    assert os.read(terminal, 100) == shown
    assert job.process.stderr.read() == b"[0]<stderr>:err\n"
    assert (tmp_path / "rank.0" / "stdout").read_text() == "[0]<stdout>:out\n"
    os.close(terminal)


def test_a_full_disk_under_the_files_is_reported_and_the_job_continues(launch, tmp_path):
    (tmp_path / "rank.0").mkdir()
    (tmp_path / "rank.0" / "stdout").symlink_to("/dev/full")
    code, out, err = run(launch, "-np", "1", "--output-filename", str(tmp_path), "echo", "hi")
    assert (code, out) == (0, "[0]<stdout>:hi\n")
    assert "--output-filename: rank 0: write: No space left on device" in err


def test_what_a_rank_wrote_before_its_end_is_shown_after_it(launch):
    size = (1 << 20) + (32 << 10)  # more than an agent forwards while the reader does not read
    job = launch("-np", "1", *sh(f"yes | head -c {size}"))
    while len(job.pids()) != 3:  # the launcher, the agent and its guardian; the rank has ended
        time.sleep(0.02)
    code, out, _ = job.finish()
    assert (code, out.count("[0]<stdout>:y\n")) == (0, size // 2)


def test_much_output_is_complete_and_takes_little_memory(launch):
    # Two ranks write 32 MiB each, in lines of different lengths, to a slow reader.
    write = (
        "import os, sys\n"
        "line = (os.environ['HOROVOD_RANK'] * 1000).encode()\n"
        "for i in range(64 << 10): os.write(1, line[:1 + i % 1023].ljust(511, b'.') + b'\\n')\n"
    )
    job = launch("-np", "2", sys.executable, "-c", write)
    peak, count = 0, {b"0": 0, b"1": 0}
    for number, line in enumerate(job.process.stdout):
        rank = line[1:2]
        assert line.startswith(b"[" + rank + b"]<stdout>:" + rank)
        assert line.endswith(b"\n")
        assert line[12:].strip(rank + b".\n") == b"", "two ranks in one line"
        count[rank] += 1
        if number % 10_000 == 0:
            status = pathlib.Path(f"/proc/{job.process.pid}/status").read_text()
            peak = max(peak, int(re.search(r"VmHWM:\s+(\d+)", status)[1]))
    assert count == {b"0": 64 << 10, b"1": 64 << 10}
    assert job.process.wait(timeout=TIMEOUT) == 0
    assert 0 < peak < 40_000, f"{peak} KiB"


def test_a_closed_standard_output_ends_the_job(launch):
    job = launch("-np", "2", *sh("while :; do echo y; done"))
    job.wait_for_line("y")
    job.process.stdout.close()
    assert job.process.wait(timeout=TIMEOUT) == 128 + signal.SIGPIPE
    assert "standard output failed" in job.process.stderr.read().decode()
    job.seconds_until_gone()


# ---- Ending --------------------------------------------------------------------------------------


def test_the_first_rank_that_fails_ends_the_others_and_is_reported(launch):
    script = """
        if [ $HOROVOD_RANK = 2 ]; then
            for i in $(seq 30); do echo "line $i" >&2; done
            exit 7
        fi
        exec sleep 60"""
    start = time.monotonic()
    job = launch("-np", "4", *sh(script))
    code, _, err = job.finish()
    assert code == 1
    assert time.monotonic() - start < TIMEOUT
    assert "Process 2 exit with status code 7.\n" in err
    report = err[err.index("Horovod detected") :]
    for part in ["rank:       2", "host:       localhost", "exit code 7", "last 20 lines"]:
        assert part in report
    assert re.search(r"pid:        \d+\n", report)
    assert "0,1,3 were stopped by SIGTERM" in report
    assert re.findall(r"\| line (\d+)", report) == [str(i) for i in range(11, 31)]
    job.seconds_until_gone(limit=SOON)


def test_a_signal_that_kills_a_rank_is_named(launch):
    script = "if [ $HOROVOD_RANK = 1 ]; then kill -SEGV $$; fi; exec sleep 60"
    code, _, err = run(launch, "-np", "2", *sh(script))
    assert code == 1
    assert "Process 1 exit with status code 139.\n" in err
    assert "killed by SIGSEGV (exit code 139)" in err


def test_a_rank_that_ends_well_early_ends_nothing(launch):
    script = "if [ $HOROVOD_RANK = 0 ]; then exit 0; fi; sleep 0.5; echo late"
    code, out, err = run(launch, "-np", "2", *sh(script))
    assert (code, out, err) == (0, "[1]<stdout>:late\n", "")


# Ignores SIGTERM, and has a child in its own session that ignores SIGTERM too.
STUBBORN = (
    "import os, signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "if len(sys.argv) == 1:\n"
    "    subprocess.Popen([sys.executable, '-c', os.environ['CODE'], 'x'],"
    " start_new_session=True)\n"
    "print('up', flush=True)\n"
    "time.sleep(60)\n"
)


def children_of(pid: int) -> list[str]:
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def start_stubborn(launch, ranks: int) -> Job:
    command = [sys.executable, "-c", STUBBORN]
    job = launch("-np", str(ranks), *command, env={"CODE": STUBBORN})
    for _ in range(2 * ranks):
        job.wait_for_line("up")
    assert len(job.pids()) == 2 * ranks + 3  # the launcher, the agent and its guardian
    return job


def test_nothing_is_left_when_a_rank_fails_and_the_others_ignore_sigterm(launch):
    job = start_stubborn(launch, 2)
    victim = next(
        pid
        for pid in job.pids()
        if b"HOROVOD_RANK=1\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        and pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()[-2:] != b"x\0"
    )
    os.kill(victim, signal.SIGKILL)
    job.seconds_until_gone()
    code, _, err = job.finish()
    assert code == 1
    assert "Process 1 exit with status code 137.\n" in err
    assert "0 were killed by SIGKILL" in err


def test_nothing_is_left_when_the_launcher_is_killed(launch):
    job = start_stubborn(launch, 2)
    job.process.kill()
    job.seconds_until_gone()


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_nothing_is_left_when_the_agent_or_its_guardian_is_killed(launch, which):
    job = start_stubborn(launch, 2)
    outer = int(children_of(job.process.pid)[0])
    os.kill(outer if which == "outer" else int(children_of(outer)[0]), signal.SIGKILL)
    code, _, err = job.finish()
    job.seconds_until_gone()
    assert code == 1
    lost = "is lost: the agent that watches it has ended, killed by SIGKILL (exit code 137)"
    stopped = ": its agent was stopped by SIGTERM"  # the inner process may report first
    assert f"host localhost {lost}" in err or (which == "outer" and f"localhost{stopped}" in err)


def test_a_signal_to_the_agent_and_its_guardian_ends_the_job(launch):
    job = launch("-np", "1", *sh("echo up; exec sleep 60"))
    job.wait_for_line("up")
    os.kill(int(children_of(job.process.pid)[0]), signal.SIGTERM)
    code, _, err = job.finish()
    assert code == 1
    assert "host localhost: its agent was stopped by SIGTERM" in err


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_nothing_is_left_of_mpirun_when_the_launcher_is_killed(launch, which):
    job = launch("--mpi", "-np", "1", *sh("echo up; sleep 60"))
    job.wait_for_line("up")
    outer = job.process.pid
    os.kill(outer if which == "outer" else int(children_of(outer)[0]), signal.SIGKILL)
    job.seconds_until_gone()


def test_an_interrupt_of_the_launcher_alone_reaches_mpirun(launch):
    job = launch("--mpi", "-np", "1", *sh("echo up; sleep 60"))
    job.wait_for_line("up")
    job.process.send_signal(signal.SIGINT)
    assert job.process.wait(timeout=TIMEOUT) != 0
    job.seconds_until_gone()


def test_a_reader_that_stops_reading_does_not_delay_the_end(launch):
    job = launch("-np", "1", *sh("while :; do echo y; done"))
    waits = pathlib.Path(f"/proc/{job.process.pid}/task")
    while not any(
        (task / "comm").read_text() == "hvd-output\n" and "pipe" in (task / "wchan").read_text()
        for task in waits.iterdir()
    ):
        time.sleep(0.01)
    job.process.send_signal(signal.SIGTERM)
    assert job.process.wait(timeout=TIMEOUT) == 128 + signal.SIGTERM
    job.seconds_until_gone(limit=SOON)


def test_signals_ignored_from_the_start_stay_ignored(launch):
    """As under nohup, or under a parent that ignores SIGCHLD."""

    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    job = launch("-np", "1", *sh("echo up; sleep 0.5; echo done; exit 3"), preexec_fn=ignore)
    job.wait_for_line("up")
    job.process.send_signal(signal.SIGHUP)
    code, out, err = job.finish()
    assert (code, out) == (1, "[0]<stdout>:done\n"), err
    assert "Process 0 exit with status code 3.\n" in err


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_job(launch, name):
    job = launch("-np", "2", *sh("trap 'echo bye; exit 3' TERM; echo up; sleep 60 & wait"))
    job.wait_for_line("up")
    job.wait_for_line("up")
    job.process.send_signal(getattr(signal, name))
    code, out, err = job.finish()
    assert code == 128 + getattr(signal, name)
    assert sorted(out.splitlines()) == ["[0]<stdout>:bye", "[1]<stdout>:bye"]
    assert f"{name}: stopping the job" in err
    assert "Process" not in err
    job.seconds_until_gone(limit=SOON)


def test_a_second_interrupt_kills_at_once(launch):
    job = start_stubborn(launch, 1)
    start = time.monotonic()
    job.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    job.process.send_signal(signal.SIGINT)
    assert job.finish()[0] == 130
    assert time.monotonic() - start < SOON
    job.seconds_until_gone(limit=SOON)


def test_children_that_a_rank_leaves_behind_end_with_the_job(launch, tmp_path):
    start = time.monotonic()
    child = "trap 'echo bye; exit' TERM; touch up; sleep 60 & wait"
    script = f'setsid sh -c "{child}" & until [ -e up ]; do sleep 0.01; done'
    code, out, _ = run(launch, "-np", "1", *sh(script), cwd=tmp_path)
    assert (code, out) == (0, "[0]<stdout>:bye\n")
    assert time.monotonic() - start < TIMEOUT


def test_a_suspended_launcher_keeps_its_job(launch):
    job = launch("-np", "1", *sh("echo up; sleep 1.5; echo done"))
    job.wait_for_line("up")
    job.process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(job.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    time.sleep(0.5)
    job.process.send_signal(signal.SIGCONT)
    code, out, _ = job.finish()
    assert (code, out) == (0, "[0]<stdout>:done\n")


def test_64_ranks_start_on_few_descriptors(launch):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))

    job = launch("-np", "64", *sh("ulimit -n"), preexec_fn=few)
    code, out, err = job.finish(timeout=60)
    assert (code, err) == (0, "")
    assert [line.split(":")[1] for line in out.splitlines()] == ["64"] * 64
