"""Runs a command, and ends its processes once the other end of a pipe is closed.

guardian.py PIPE COMMAND...     exits with the command's code, or 128 + signal

It is a process of its own because whoever holds the other end may be killed. It imports no part of
the package, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

GRACE_SECONDS = 5  # between asking and killing


def is_left(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def end(child: subprocess.Popen[bytes]) -> None:
    """Also those of the command's group who outlive it."""
    os.killpg(child.pid, signal.SIGTERM)
    # There is nothing to wait on for a whole group, so it is looked at now and then. As long as it
    # has a member, its number is nobody else's.
    latest = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < latest:
        child.poll()
        if not is_left(child.pid):
            return
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def main(pipe: int, command: list[str]) -> int:
    os.set_inheritable(pipe, False)
    try:
        # A Ctrl-C in the terminal is for the other end of the pipe, which decides.
        child = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127  # as shells have it
    ended = os.pidfd_open(child.pid)
    if ended not in select.select([pipe, ended], [], [])[0]:
        end(child)
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
