# SPDX-License-Identifier: Apache-2.0
"""Runs a command, and ends all processes that it started when the other end of a pipe is closed.

guardian.py WHEN PIPE COMMAND...     exits with the command's code, or 128 + signal

WHEN: "on-close" ends processes only when the pipe is closed, so processes that outlive the command
continue. "always" ends such processes too. The guardian is a separate process because the process
at the other end of the pipe may be killed. It imports no part of the package, so that it starts
quickly.

The launcher has a guardian in C++ (launcher/guardian.h, and the walk of the process tree in
launcher/processes.cc). This one exists because it must work wherever the Python package does, also
without the horovodrun binary, and because its task differs: it watches a pipe, and in mode
"on-close" it keeps background processes. This guardian and the launcher's agent follow the same
rules: find the descendants through the parents in /proc, signal all of them regardless of group and
session, SIGTERM first, SIGKILL after five seconds, repeated for three seconds. A change here must
be made there as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

ON_CLOSE, ALWAYS = "on-close", "always"
GRACE_SECONDS = 5  # between asking and killing
KILL_SECONDS = 3  # a killed process ends at once, unless it waits in the kernel
LOOK_SECONDS = 0.02

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_prctl = ctypes.CDLL(None).prctl


def command(when: str, pipe: int) -> list[str]:
    """To be followed by the words of the command to run."""
    return [sys.executable, "-I", "-S", __file__, when, str(pipe)]


def descendants() -> list[int]:
    """The children of this process, their children, and so on, regardless of process group."""
    children: dict[int, list[int]] = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            # The name, in parentheses, may be cut in the middle of a character.
            parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def send(number: int) -> None:
    for pid in descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def are_gone(child: subprocess.Popen[bytes], seconds: float, number: int = 0) -> bool:
    """Whether all descendants end within `seconds`; until then they get signal `number`, if set."""
    latest = time.monotonic() + seconds
    while time.monotonic() < latest:
        if number:
            send(number)
        child.poll()
        with contextlib.suppress(ChildProcessError):
            while child.returncode is not None and os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not descendants():
            return True
        # The kernel offers no wait for processes that are not children of this process.
        time.sleep(LOOK_SECONDS)
    return False


def end(child: subprocess.Popen[bytes]) -> None:
    send(signal.SIGTERM)
    if not are_gone(child, GRACE_SECONDS):
        are_gone(child, KILL_SECONDS, signal.SIGKILL)


def main(when: str, pipe: int, words: list[str]) -> int:
    os.set_inheritable(pipe, False)
    # A signal wakes the wait below. Some kernels and containers have no pidfd_open.
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Descendants whose parents have ended become children of this process.
    _prctl(_SET_CHILD_SUBREAPER, 1)
    try:
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            # A Ctrl-C in the terminal is for the other end of the pipe, which decides.
            start_new_session=True,
            # This process has one thread.
            preexec_fn=lambda: _prctl(_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
        )
    except OSError as error:
        print(f"{words[0]}: {error.strerror}", file=sys.stderr)
        return 127  # as shells have it
    is_closed = False
    while child.poll() is None and not is_closed:
        ready, _, _ = select.select([pipe, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        is_closed = pipe in ready
    if is_closed or when == ALWAYS:
        end(child)
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
