# SPDX-License-Identifier: Apache-2.0
"""One job of hvd_chaos_rank: rendezvous server, processes, their output and how they ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator

from chaos import settings

SECRET_TEXT = 45
# gdb runs this on a process that hangs.
STACKS = ["-batch", "-ex", "set pagination off", "-ex", "thread apply all bt 14"]


class Library:
    """Runs the rendezvous server of libhvd.so in this process."""

    def __init__(self, build: pathlib.Path):
        self.calls = ctypes.CDLL(str(build / "core" / "capi" / "libhvd.so"))
        self.calls.hvd_error.restype = ctypes.c_char_p

    def make_secret(self) -> str:
        secret = ctypes.create_string_buffer(SECRET_TEXT)
        self.calls.hvd_make_secret(secret)
        return secret.value.decode()

    @contextlib.contextmanager
    def rendezvous_server(self, secret: str, address: str, tls: bool) -> Iterator[int]:
        """Starts a rendezvous server in the namespace of the calling thread; yields its port."""
        server = ctypes.c_void_p()
        code = self.calls.hvd_store_start(
            secret.encode(), address.encode(), int(tls), ctypes.byref(server)
        )
        if code != 0:
            raise OSError(f"no rendezvous server on {address}: {self.calls.hvd_error().decode()}")
        try:
            yield self.calls.hvd_store_port(server)
        finally:
            self.calls.hvd_store_stop(server)


class Rank:
    """One process. A thread reads its output, so that no pipe can fill up."""

    def __init__(self, command: list[str], environment: dict[str, str], log: pathlib.Path):
        self.lines: list[str] = []
        self.log = log
        self.is_ready = threading.Event()
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
            )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line == "ready\n":
                self.is_ready.set()
        self.is_ready.set()  # the process has ended without a ready line

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self, seconds: float) -> bool:
        try:
            self.process.wait(max(0, seconds))
        except subprocess.TimeoutExpired:
            return False
        self.reader.join(5)
        return True

    def first(self, word: str) -> str | None:
        """The rest of the first line that starts with this word, or None."""
        for line in self.lines:
            if line == word or line.startswith(word + " "):
                return line[len(word) + 1 :]
        return None

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        self.process.stdout.close()

    def death(self) -> str | None:
        """The signal that killed it, or None if it exited by itself."""
        code = self.process.returncode
        # A wrapper such as unshare returns 128 + the number of the signal.
        if code is not None and (code < 0 or code > 128):
            number = -code if code < 0 else code - 128
            with contextlib.suppress(ValueError):
                return signal.Signals(number).name
            return f"exit {code}"
        return None


def fill(values: dict[str, str], place: dict[str, object]) -> dict[str, str]:
    """Replaces the placeholders in settings; leaves out settings with an empty value."""
    return {name: value.format(**place) for name, value in values.items() if value}


def without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "HOROVOD_" not in name}


class Job:
    """The ranks of one job and a folder for their files. Leaving the context kills all of them."""

    def __init__(self, build: pathlib.Path, size: int):
        self.program = str(build / "core" / "capi" / "hvd_chaos_rank")
        self.size = size
        self.ranks: list[Rank] = []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hvd-chaos-"))
        self.started = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_rank(
        self,
        arguments: dict[str, int],
        values: dict[str, str],
        secret: str,
        port: int,
        wrapper: list[str] | None = None,
    ) -> None:
        """Starts the next rank with the settings `values`."""
        rank = len(self.ranks)
        place = {
            "rank": rank,
            "size": self.size,
            "parity": rank % 2,
            "port": port,
            "secret": secret,
            "folder": self.folder,
        }
        environment = without_settings() | fill(values, place)
        if self.size > 1:
            environment["_HOROVOD_SECRET_KEY"] = secret
        words = [f"{name}={number}" for name, number in arguments.items()]
        command = [*(wrapper or []), self.program, *words]
        self.ranks.append(Rank(command, environment, self.folder / f"rank{rank}.log"))

    def all_ready(self, limit: float) -> bool:
        return all(rank.is_ready.wait(max(0, limit - self.seconds())) for rank in self.ranks)

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def wait(self, limit: float) -> None:
        """Waits until all ranks have ended, at most until `limit` seconds after the start. After a
        crash the other ranks get only a few seconds: the run has already failed."""
        crashed = False
        while self.seconds() < limit:
            running = [rank for rank in self.ranks if not rank.ended(0)]
            if not running:
                return
            if not crashed and any(rank.death() not in (None, "SIGKILL") for rank in self.ranks):
                crashed = True
                limit = min(limit, self.seconds() + 4)
            time.sleep(0.02)

    def output(self) -> str:
        parts = []
        for number, rank in enumerate(self.ranks):
            log = rank.log.read_text(errors="replace")[-2_000:]
            lines = [line for line in rank.lines if not line.startswith("[")]
            code = rank.process.poll()
            parts.append(f"rank {number}, exit {code}: " + " | ".join(lines[-6:])[-1_500:])
            parts += [f"  {line}" for line in log.splitlines()[-12:]]
        return "\n".join(parts)


def descendants(pid: int) -> list[int]:
    """The process itself and its descendants."""
    found = [pid]
    for process in found:
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text()
            found += [int(word) for word in text.split()]
    return found


def stacks(rank: Rank) -> str:
    """Stack traces of the threads of a rank, from gdb or else from the kernel."""
    pid = descendants(rank.process.pid)[-1]
    if shutil.which("gdb") is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                ["gdb", "-p", str(pid), *STACKS],
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )
            lines = [line for line in done.stdout.splitlines() if line[:1] in ("#", "T")]
            if lines:
                return "\n".join(line[:160] for line in lines[:60])
    found = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        for name in ("comm", "wchan", "stack"):
            with contextlib.suppress(OSError):
                found.append(f"{name}: {(task / name).read_text().strip()}")
    return "\n".join(found)


def place_of(size: int) -> dict[str, str]:
    return settings.PLACE if size > 1 else {}
