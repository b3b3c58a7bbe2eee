# SPDX-License-Identifier: Apache-2.0
"""Resets signals for the processes that a test runner starts.

A shell starts background jobs with SIGINT ignored, nohup ignores SIGHUP, and any program may leave
signals blocked. Children inherit this, and a test that sends such a signal would wait without end.
"""

import signal

# The signals that tests send, or that programs under test handle. Not SIGPIPE and SIGXFSZ: Python
# ignores them itself, and subprocess restores them in children.
SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
    *(signal.SIGTSTP, signal.SIGCONT, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2),
)


def give_children_the_defaults() -> None:
    """Affects children started later. Call it in the main thread before other threads start.

    This process continues to ignore the same signals, through a handler that does nothing: exec()
    resets a handler to the default, but keeps an ignored signal ignored.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _do_nothing(*_: object) -> None:
    pass
