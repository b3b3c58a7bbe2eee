# SPDX-License-Identifier: Apache-2.0
"""Signals, as the processes that a test runner starts find them.

A shell starts background jobs with SIGINT ignored, nohup ignores SIGHUP, and any program may leave
signals blocked. Children inherit this, and a test that sends such a signal waits for a reaction
that cannot come.
"""

import signal

# Those that tests send, or that programs under test react to. Not SIGPIPE and SIGXFSZ: Python
# ignores them itself, and subprocess restores them in children.
SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
    *(signal.SIGTSTP, signal.SIGCONT, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2),
)


def give_children_the_defaults() -> None:
    """From now on; call it in the main thread, before there are others.

    What this process ignores it goes on ignoring, by a handler that does nothing: exec() gives the
    default back in place of a handler, but keeps what is ignored.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _do_nothing(*_: object) -> None:
    pass
