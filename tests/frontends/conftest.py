# SPDX-License-Identifier: Apache-2.0
"""Starts ranks as plain processes without a framework, for tests of the core from Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from horovod import _core
from processes import states_of_threads, wait_until

WAIT = 90  # seconds for which a call waits without success
SOON = 20  # seconds within which an interrupted call ends, on a busy machine

PRELUDE = f"""
import os, signal, sys, threading, time
from horovod import _core
from horovod.common import basics, process_sets
WAIT = {WAIT}

def wait_in(call, *args):
    print("waits", flush=True)
    try:
        result = call(*args)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    else:
        print("returned", result, flush=True)

def hear(word):
    assert sys.stdin.readline().strip() == word
"""


class Process:
    def __init__(self, script: str, **settings: str) -> None:
        environment = {name: value for name, value in os.environ.items() if "HOROVOD" not in name}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(script)],
            env={**environment, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def say(self, word: str) -> None:
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def freeze(self) -> None:
        """Stop the process, and wait until all its threads are stopped."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: set(states_of_threads(self.process.pid)) == {"T"})

    def interrupt(self) -> None:
        """Send SIGINT once the process waits; it must notice."""
        assert self.line() == "waits"
        time.sleep(0.3)  # until it is inside the call; before that Python itself would raise
        start = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        assert self.line() == "interrupted"
        assert time.monotonic() - start < SOON

    def end(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(SOON) == 0
        assert self.process.stdout.read() == ""


@pytest.fixture
def processes():
    started: list[Process] = []

    def start(script: str, **settings: str) -> Process:
        started.append(Process(script, **settings))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


@pytest.fixture
def rank_settings():
    """The settings of two ranks with a rendezvous server, except HOROVOD_RANK."""
    secret = _core.make_secret()
    server = _core.rendezvous_start(secret, "127.0.0.1", False)
    yield {
        "HOROVOD_RENDEZVOUS": f"127.0.0.1:{_core.rendezvous_port(server)}",
        "_HOROVOD_SECRET_KEY": secret,
        "HOROVOD_SIZE": "2",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(WAIT),
        "HOROVOD_HEARTBEAT_TIMEOUT_SECONDS": str(WAIT),
    }
    _core.rendezvous_stop(server)
