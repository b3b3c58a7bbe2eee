# SPDX-License-Identifier: Apache-2.0
"""horovodrun over real ssh: each host is a network namespace with its own sshd.

Needs root, ip and sshd; the tests are skipped with a reason where namespaces are not permitted.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import native
import netns
import pytest

HOROVODRUN = native.BUILD / "launcher" / "horovodrun"
SCENARIO = native.BUILD / "core" / "capi" / "hvd_scenario"
PORT = 2222
BARE_PORT = 2223  # of an sshd on host 1 whose PATH has no horovodrun
# Limit in seconds for steps that take milliseconds on an idle machine. Ranks sleep for 60 s, and a
# host that is silent for 7 s is treated as lost.
SOON = 5
TIMEOUT = 30

SSHD_CONFIG = """
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
PidFile none
LogLevel ERROR
MaxStartups 100
"""

SSH_CONFIG = """
Host *
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  IdentitiesOnly yes
"""


class Cluster:
    """Hosts 10.77.0.1 and so on. The launcher is on the first; the other hosts run an sshd."""

    def __init__(self, net: netns.Network, folder: pathlib.Path):
        self.net = net
        self.folder = folder
        for key in ("host_key", "user_key", "wrong_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True
            )
        for name, text in (("sshd_config", SSHD_CONFIG), ("ssh_config", SSH_CONFIG)):
            (folder / name).write_text(text.format(folder=folder))
        public = " ".join((folder / "host_key.pub").read_text().split()[:2])
        self.known = "".join(
            f"[{net.address(host)}]:{port} {public}\n"
            for host in range(1, net.hosts)
            for port in (PORT, BARE_PORT)
        )
        (folder / "known_hosts").write_text(self.known)
        # The chroot directory of sshd, which systemd normally creates.
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        for host in range(1, net.hosts):
            self.start_sshd(host, PORT)

    def start_sshd(self, host: int, port: int, before: str = "") -> None:
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        serve = f"{before} exec {sshd} -D -e -p {port} -f {self.folder}/sshd_config"
        shell = ["unshare", "--mount", "sh", "-c", serve]
        self.net.start(host, shell, {})
        self.wait_for_port(host, port)

    def wait_for_port(self, host: int, port: int) -> None:
        probe = ["ip", "netns", "exec", self.space(host), "ss", "-Hltn", f"sport = :{port}"]

        def listens():
            return subprocess.run(probe, capture_output=True, check=True).stdout

        wait_until(listens, f"port {port}")

    def space(self, host: int) -> str:
        return f"{self.net.name}-{host}"

    def processes(self, host: int) -> dict[int, str]:
        """Command lines of the processes on a host, without sshd."""
        found = {}
        listing = subprocess.run(
            ["ip", "netns", "pids", self.space(host)], capture_output=True, text=True, check=True
        )
        for pid in listing.stdout.split():
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                # A zombie has an empty command line; sshd overwrites its own.
                if words[0] and not words[0].startswith("sshd:") and "sshd_config" not in words[-2]:
                    found[int(pid)] = " ".join(words)
        return found

    def hosts(self, *slots: int) -> str:
        return ",".join(f"{self.net.address(i)}:{n}" for i, n in enumerate(slots) if n > 0)

    def launch(self, *arguments: str, port: int = PORT, key: str = "user_key") -> subprocess.Popen:
        ssh = ["-p", str(port), "-i", str(self.folder / key)]
        process = subprocess.Popen(
            [
                *("ip", "netns", "exec", self.space(0), str(HOROVODRUN), *ssh),
                *(f"--ssh-args=-F {self.folder}/ssh_config", *arguments),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            start_new_session=True,
        )
        self.net.processes.append(process)
        return process

    def run(self, *arguments: str, **options) -> tuple[int, str, str]:
        process = self.launch(*arguments, **options)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def start_sleepers(self) -> subprocess.Popen:
        """One rank on host 0 and one on host 1; both ignore SIGTERM, as do their children."""
        script = "trap '' TERM; setsid sleep 60 & echo up; wait"
        job = self.launch("-np", "2", "-H", self.hosts(1, 1), "sh", "-c", script)
        lines = sorted(job.stdout.readline() for _ in range(2))
        assert lines == ["[0]<stdout>:up\n", "[1]<stdout>:up\n"], job.stderr.read()
        return job

    def expect_no_process(self, seconds: float = TIMEOUT) -> None:
        def all_ended():
            return not any(self.processes(host) for host in range(self.net.hosts))

        wait_until(all_ended, "the end of all processes", seconds)


def wait_until(condition, what: str, seconds: float = TIMEOUT) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited for {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if not HOROVODRUN.exists():
        pytest.fail(f"{HOROVODRUN} is missing: make build-dev")
    if missing := netns.why_not():
        pytest.skip(missing)
    if not (shutil.which("sshd") or pathlib.Path("/usr/sbin/sshd").exists()):
        pytest.skip("no sshd (Debian package openssh-server)")
    with contextlib.ExitStack() as stack:
        try:
            net = stack.enter_context(netns.Network(3))
        except OSError as error:
            pytest.skip(str(error))
        yield Cluster(net, tmp_path_factory.mktemp("ssh"))


@pytest.fixture(autouse=True)
def no_process_fails_the_next_test(cluster):
    yield
    for host in range(cluster.net.hosts):
        for pid in cluster.processes(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_ranks_on_three_hosts_reduce_together(cluster):
    code, out, err = cluster.run(
        *("-np", "5", "-H", cluster.hosts(2, 2, 1), str(SCENARIO), "restart", "1")
    )
    assert code == 0, err
    assert sorted(out.splitlines()) == [f"[{rank}]<stdout>:ok" for rank in range(5)]
    cluster.expect_no_process(seconds=SOON)


def test_ranks_of_another_host_have_the_launchers_environment_folder_and_a_way_back(cluster):
    script = "echo $HOROVOD_RANK $HOROVOD_HOSTNAME $HOROVOD_RENDEZVOUS $HOROVOD_GLOO_IFACE $PWD"
    code, out, err = cluster.run(
        *("-np", "2", "-H", cluster.hosts(0, 1, 1), "--network-interfaces", "wire,eth9"),
        *("sh", "-c", script),
    )
    assert code == 0, err
    for line in out.splitlines():
        rank, host, store, interface, folder = line.split(":", 1)[1].split()
        assert host == cluster.net.address(int(rank) + 1)
        assert store.startswith(cluster.net.address(0) + ":")
        assert (interface, folder) == ("wire", str(cluster.folder))


def test_the_secret_is_in_no_command_line_of_any_host(cluster):
    script = "echo $_HOROVOD_SECRET_KEY; sleep 60"
    job = cluster.launch("-np", "1", "-H", cluster.hosts(0, 1), "sh", "-c", script)
    secret = job.stdout.readline().split(":", 1)[1].strip()
    assert len(secret) == 44
    words = [line for host in (0, 1) for line in cluster.processes(host).values()]
    assert any("--agent" in line for line in words)
    assert not any(secret in line for line in words)
    job.send_signal(signal.SIGINT)
    assert job.wait(timeout=TIMEOUT) == 130
    cluster.expect_no_process()


def test_hosts_that_cannot_be_reached_are_all_named_and_nothing_starts(cluster):
    hosts = f"{cluster.hosts(1)},10.77.0.77:1,no-such-host.invalid:1"
    code, out, err = cluster.run("-np", "3", "-H", hosts, "echo", "started")
    assert (code, out) == (1, "")
    assert "host 10.77.0.77: there is no network route to it" in err
    assert "host no-such-host.invalid: this name cannot be resolved" in err
    assert "nothing was started" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 2299}, "no ssh server answers there"),
        ({"key": "wrong_key"}, "it refuses the login"),
    ],
)
def test_why_ssh_fails_is_explained(cluster, options, message):
    code, out, err = cluster.run("-np", "1", "-H", cluster.hosts(0, 1), "true", **options)
    assert (code, out) == (1, "")
    assert f"host {cluster.net.address(1)}: {message}" in err


def test_a_host_that_accepts_the_connection_and_stays_silent_is_given_up(cluster):
    listen = "import socket, time; s = socket.create_server(('', 2244)); time.sleep(60)"
    silent = cluster.net.start(1, [sys.executable, "-c", listen], {})
    cluster.wait_for_port(1, 2244)
    hosts = ("-np", "1", "-H", cluster.hosts(0, 1))
    code, out, err = cluster.run("--start-timeout", "1", *hosts, "true", port=2244)
    assert (code, out) == (1, "")
    assert f"host {cluster.net.address(1)}: no answer in time" in err
    # ssh does not keep waiting for the host after the launcher has ended.
    job = cluster.launch(*hosts, "true", port=2244)
    wait_until(lambda: len(cluster.processes(0)) == 2, "ssh")
    job.kill()
    wait_until(lambda: not cluster.processes(0), "the end of ssh", SOON)
    silent.kill()


def test_an_unknown_host_key_is_not_trusted(cluster):
    (cluster.folder / "known_hosts").write_text("")
    try:
        code, out, err = cluster.run("-np", "1", "-H", cluster.hosts(0, 1), "true")
    finally:
        (cluster.folder / "known_hosts").write_text(cluster.known)
    assert (code, out) == (1, "")
    assert "ssh does not trust its host key: log in once by hand" in err


def test_a_host_without_horovodrun_is_reported(cluster):
    hide = f"mount -t tmpfs none {HOROVODRUN.parent};"
    cluster.start_sshd(1, BARE_PORT, before=hide)
    code, out, err = cluster.run("-np", "1", "-H", cluster.hosts(0, 1), "true", port=BARE_PORT)
    assert (code, out) == (1, "")
    assert "horovodrun is not installed there" in err


def test_a_command_that_another_host_lacks_is_named_with_it(cluster):
    code, _, err = cluster.run("-np", "1", "-H", cluster.hosts(0, 1), "no-such-command")
    assert code == 1
    assert f'host {cluster.net.address(1)}: there is no command "no-such-command"' in err


def test_a_rank_that_fails_on_another_host_is_reported_with_it(cluster):
    script = "[ $HOROVOD_RANK = 0 ] && exec sleep 60; echo oh no >&2; exit 9"
    code, _, err = cluster.run("-np", "2", "-H", cluster.hosts(1, 1), "sh", "-c", script)
    assert code == 1
    assert "Process 1 exit with status code 9.\n" in err
    assert f"host:       {cluster.net.address(1)}" in err
    assert "  | oh no" in err
    cluster.expect_no_process()


def test_nothing_is_left_when_the_launcher_is_killed(cluster):
    cluster.start_sleepers().kill()
    cluster.expect_no_process()


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_nothing_is_left_when_an_agent_is_killed(cluster, which):
    job = cluster.start_sleepers()
    agents = [pid for pid, words in cluster.processes(1).items() if "--agent remote" in words]
    assert len(agents) == 2
    os.kill(min(agents) if which == "outer" else max(agents), signal.SIGKILL)
    cluster.expect_no_process()
    assert job.wait(timeout=TIMEOUT) == 1


def test_nothing_is_left_when_ssh_is_killed(cluster):
    job = cluster.start_sleepers()
    ssh = [pid for pid, words in cluster.processes(0).items() if words.startswith("ssh ")]
    assert len(ssh) == 1
    os.kill(ssh[0], signal.SIGKILL)
    cluster.expect_no_process()
    assert job.wait(timeout=TIMEOUT) == 1
    assert f"host {cluster.net.address(1)} is lost: ssh" in job.stderr.read()


def test_nothing_is_left_when_the_cable_is_cut(cluster):
    job = cluster.start_sleepers()
    netns.run("ip", "-n", cluster.space(1), "link", "set", "wire", "down")
    try:
        cut = time.monotonic()
        wait_until(lambda: not cluster.processes(1), "the end of the lost host's processes")
        print(f"the other host was clean after {time.monotonic() - cut:.1f} s")
        assert job.wait(timeout=TIMEOUT) == 1
        cluster.expect_no_process(seconds=SOON)
    finally:
        netns.run("ip", "-n", cluster.space(1), "link", "set", "wire", "up")
    assert "is lost: nothing was heard from it for 7 s; ranks 1 ran" in job.stderr.read()


def test_the_doctor_checks_every_host_and_the_paths_between(cluster):
    code, out, err = cluster.run("--doctor", "-H", cluster.hosts(1, 1, 1) + ",10.77.0.77:1")
    assert code == 1, err  # because of the unreachable host
    for host in range(3):
        assert cluster.net.address(host) in out
        after = cluster.net.address((host + 1) % 3)
        assert f"{cluster.net.address(host)} to {after} ({after}:" in out
    assert out.count("horovodrun 1") >= 3
    assert "wire 10.77.0.2/24" in out
    assert "[!!] there is no network route to it" in out
    cluster.expect_no_process()
