# SPDX-License-Identifier: Apache-2.0
"""suite.py reports each check of a job separately, even if a check ends its process."""

import pytest
import suite
import tensorflow_matmul


def test_a_check_that_ends_its_process_fails_alone(tmp_path):
    job = suite.Job(tmp_path, "numpy_adapter", ["suite_checks"], 2)
    outcomes = {check: job.outcome(check) for check in suite.checks_of("suite_checks")}
    assert {check: kind for check, (kind, _) in outcomes.items()} == {
        "before_the_crash": "passed",
        "that_crashes_on_one_rank": "failed",
        "after_the_crash": "passed",
        "that_fails_on_one_rank": "failed",
        "that_is_skipped": "skipped",
        "that_leaves_with_success": "failed",
        "that_comes_last": "passed",
    }
    assert job.jobs == 3  # a new job after each check that has ended its process
    assert "killed by SIGILL" in outcomes["that_crashes_on_one_rank"][1]
    assert "AssertionError" in outcomes["that_fails_on_one_rank"][1]


def test_ranks_that_do_not_start_fail_every_check(tmp_path):
    job = suite.Job(tmp_path, "no_such_adapter", ["suite_checks"], 1)
    for check in suite.checks_of("suite_checks"):
        kind, text = job.outcome(check)
        assert kind == "failed" and "No module named 'no_such_adapter'" in text
    assert job.jobs == 1


AMX, NO_AMX = "flags : fpu amx_bf16 avx512_bf16 amx_tile\n", "flags : fpu avx512_bf16\n"
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.mark.parametrize(
    ("flags", "program", "reason"),
    [
        (
            AMX,
            DIES,
            "bfloat16 matrices ends by SIGILL here, on a processor with amx_bf16, amx_tile",
        ),
        (AMX, "exit(1)", ""),
        (NO_AMX, DIES, ""),  # the program is not started
    ],
    ids=["dies", "no crash", "another processor"],
)
def test_a_process_of_its_own_tries_what_kills_tensorflow(tmp_path, flags, program, reason):
    (tmp_path / "cpuinfo").write_text(flags)
    problem = tensorflow_matmul.problem(tmp_path / "cpuinfo", program)
    assert problem.endswith(reason) and bool(problem) == bool(reason)
