"""The process of a rank: calls the user's function, and does not outlive the task."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def _end_with_the_task() -> None:
    """Leave nothing of this rank when the task has gone, which holds the other end of our input.

    A process beside this one waits for that, because a function of the user's may not let any
    Python code run meanwhile, and ends all that the rank has started.
    """
    group = os.getpgrp()
    if os.fork() == 0:
        os.setpgid(0, 0)
        for stream in (1, 2):
            os.close(stream)  # who reads the rank's output sees its end
        while os.read(0, 4096):
            pass
        try:
            os.killpg(group, signal.SIGKILL)
        finally:
            os._exit(0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


if __name__ == "__main__":
    _end_with_the_task()
    from horovod.runner import run_task  # what it loads need not be in the other process

    sys.exit(run_task.main())
