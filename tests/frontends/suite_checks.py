# SPDX-License-Identifier: Apache-2.0
"""Checks that pass, fail and crash, for suite_test.py."""

import os
import signal

from horovod.common import basics
from suite import Skip


def check_before_the_crash(frontend):
    assert basics.size() == 2


def check_that_crashes_on_one_rank(frontend):
    if basics.rank() == 1:
        os.kill(os.getpid(), signal.SIGILL)


def check_after_the_crash(frontend):
    assert basics.size() == 2


def check_that_fails_on_one_rank(frontend):
    assert basics.rank() == 0


def check_that_is_skipped(frontend):
    raise Skip("not here")


def check_that_leaves_with_success(frontend):
    os._exit(0)


def check_that_comes_last(frontend):
    assert basics.size() == 2
