# SPDX-License-Identifier: Apache-2.0
"""The scripts that run and count tests detect failures, crashes, hangs and failed stages."""

import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time

import dispositions
import junit
import pytest
import run_demo
import run_stages
import run_tests

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "scripts"


def run(folder: pathlib.Path, body: str, *, is_gtest=True, timeout=20.0):
    """Runs a fake test program: `body` is Python, `xml` in it is the path of the result file."""
    script = folder / "program.py"
    head = f"#!{sys.executable}\nimport os, sys, time\n"
    head += "xml = sys.argv[1].removeprefix('--gtest_output=xml:') if len(sys.argv) > 1 else ''\n"
    script.write_text(head + textwrap.dedent(body))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    program = run_tests.Program("p", [str(script)], str(folder), timeout, False, is_gtest)
    passed, output = run_tests.run_program(program, folder / "results")
    return passed, junit.read_folder(folder / "results"), output


GTEST_XML = """
    open(xml, "w").write('''<testsuites><testsuite name="S">
      <testcase name="Good" classname="S" status="run" result="completed"/>
      <testcase name="Bad" classname="S" status="run" result="completed">
        <failure message="1 != 2"/></testcase>
      <testcase name="Skip" classname="S" status="run" result="skipped">
        <skipped message="no namespaces"/></testcase>
      <testcase name="DISABLED_Off" classname="S" status="notrun" result="suppressed"/>
    </testsuite></testsuites>''')
"""


def test_cases_of_a_gtest_program_are_counted_one_by_one(tmp_path):
    passed, cases, _ = run(tmp_path, GTEST_XML + "    sys.exit(1)\n")
    assert not passed
    assert cases == [
        junit.Case("S.Good", "passed"),
        junit.Case("S.Bad", "failed", "1 != 2"),
        junit.Case("S.Skip", "skipped", "no namespaces"),
        junit.Case("S.DISABLED_Off", "skipped", "disabled"),
    ]


BROKEN_OFF = """
    print("[ RUN      ] S.First")
    print("[       OK ] S.First (1 ms)")
    print("[ RUN      ] S.Second/3")
    sys.stdout.flush()
"""


def test_a_crash_fails_the_test_it_happened_in(tmp_path):
    passed, cases, output = run(tmp_path, BROKEN_OFF + "    os.abort()\n")
    assert not passed
    assert [case.outcome for case in cases] == ["passed", "failed"]
    assert cases[1].name.endswith("S.Second/3")
    assert cases[1].reason == "ended by SIGABRT"
    assert "S.Second/3" in output


def test_a_program_that_hangs_is_killed_and_fails(tmp_path):
    passed, cases, _ = run(tmp_path, BROKEN_OFF + "    time.sleep(600)\n", timeout=1.0)
    assert not passed
    assert "time limit" in cases[1].reason


def test_leaving_early_with_success_is_a_failure(tmp_path):
    passed, cases, _ = run(tmp_path, BROKEN_OFF)
    assert not passed
    assert [case.outcome for case in cases] == ["passed", "failed"]


def test_a_leak_report_after_all_tests_passed_is_a_failure(tmp_path):
    body = """
    open(xml, "w").write('<testsuites><testcase name="Good" classname="S"/></testsuites>')
    sys.exit(23)
    """
    passed, cases, _ = run(tmp_path, body)
    assert not passed
    assert sorted(case.outcome for case in cases) == ["failed", "passed"]


def test_a_plain_program_is_one_case(tmp_path):
    assert run(tmp_path, "", is_gtest=False)[1][0].outcome == "passed"
    passed, cases, _ = run(tmp_path, "sys.exit(3)", is_gtest=False)
    assert not passed
    assert [(each.name, each.outcome, each.reason) for each in cases] == [
        ("p.program", "failed", "exited with 3")
    ]
    assert cases[0].seconds > 0


# Signals ----------------------------------------------------------------------------------------


def start_as_nohup_does():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def run_as_nohup_does(*command, folder: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=start_as_nohup_does,
    )


RUNNER = """
import os, signal, subprocess, sys
import dispositions
dispositions.give_children_the_defaults()
os.kill(os.getpid(), signal.SIGINT)  # still ignored here
os.kill(os.getpid(), signal.SIGHUP)
for name in ("INT", "HUP", "TERM", "PIPE"):
    print(subprocess.run(["sh", "-c", f"kill -{name} $$"]).returncode)
"""


def test_children_have_default_signals_whatever_their_runner_was_started_with(tmp_path):
    done = run_as_nohup_does("-c", RUNNER, folder=tmp_path)
    numbers = [signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE]
    assert done.stdout.split() == [str(-number) for number in numbers], done.stderr


def test_a_runner_of_programs_gives_them_default_signals(tmp_path):
    """ctest lists one program, which saves its signal state. A shell would unblock signals."""
    (tmp_path / "CTestTestfile.cmake").write_text("add_test(p cp /proc/self/status status)\n")
    script = str(SCRIPTS / "run_tests.py")
    done = run_as_nohup_does(script, ".", "--results", "results", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    status = dict(line.split(":\t") for line in (tmp_path / "status").read_text().splitlines())
    # Not all signals: the C library reserves 32 and 33, and some parents ignore them.
    ours = sum(1 << (number - 1) for number in dispositions.SIGNALS)
    assert [int(status[name], 16) & ours for name in ("SigBlk", "SigIgn")] == [0, 0]


TESTS = """
import os, pathlib, subprocess

def test_that_fails_half_way():
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    pathlib.Path("pid").write_text(str(child.pid))
    assert False

def test_that_comes_after_it():
    pid = int(pathlib.Path("pid").read_text())
    assert os.waitpid(pid, 0)[1] == 9
    assert subprocess.run(["sh", "-c", "kill -INT $$"]).returncode == -2
"""


def test_a_failed_test_leaves_no_process_to_the_next(tmp_path):
    shutil.copy(SCRIPTS.parent / "tests" / "conftest.py", tmp_path)
    (tmp_path / "some_test.py").write_text(TESTS)
    done = run_as_nohup_does("-m", "pytest", "-q", "some_test.py", folder=tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout


# Stages -----------------------------------------------------------------------------------------


def run_stages_in(folder: pathlib.Path, makefile: str, *options: str) -> tuple[int, list[str]]:
    (folder / "Makefile").write_text(makefile)
    outcome = subprocess.run(
        [sys.executable, SCRIPTS / "run_stages.py", "results", "one", "two", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return outcome.returncode, outcome.stdout.splitlines()


def test_the_last_line_sums_all_stages_and_gives_reasons_of_skipped_tests(tmp_path):
    for stage in ("one", "two"):
        cases = [junit.Case("a", "passed"), junit.Case("b", "skipped", "no namespaces")]
        junit.write(tmp_path / f"{stage}.xml", "s", cases)
    recipe = "{0}:\n\t@mkdir -p results/{0} && cp {0}.xml results/{0}/\n"
    code, lines = run_stages_in(tmp_path, recipe.format("one") + recipe.format("two"))
    assert code == 0
    assert lines[-1] == "2 passed, 0 failed, 2 skipped"
    assert "skipped: two: s.b: no namespaces" in lines


def test_the_slowest_tests_are_listed_slowest_first(tmp_path):
    cases = [junit.Case(f"t{i}", "passed", seconds=i) for i in range(30)]
    junit.write(tmp_path / "one.xml", "s", cases)
    recipe = "one:\n\t@mkdir -p results/one && cp one.xml results/one/\ntwo:\n\t@true\n"
    _, lines = run_stages_in(tmp_path, recipe)
    listed = [line.split()[-1] for line in lines[lines.index("slowest tests:") + 1 :][:21]]
    assert listed[:2] == ["s.t29", "s.t28"]
    assert listed[19] == "s.t10"
    assert "s.t9" not in listed


def test_a_stage_that_fails_without_tests_counts_and_the_next_one_still_runs(tmp_path):
    code, lines = run_stages_in(tmp_path, "one:\n\t@exit 4\ntwo:\n\t@echo second ran\n")
    assert code != 0
    assert "second ran" in lines
    assert lines[-1] == "0 passed, 1 failed, 0 skipped"


# Stage one waits for the target that is built meanwhile; stage two finds it built.
AHEAD = """
one:
\t@for i in $$(seq 300); do [ -e two-begun ] && [ -e pid ] && exit 0; sleep 0.1; done; exit 1
two: fails
\t@[ -e two-made ]
make-two:
\t@touch two-begun; sleep 0.5; touch two-made
fails:
\t@[ -e tried ] || { touch tried; exit 1; }
endless:
\t@echo $$$$ > pid; exec sleep 600
"""


def test_a_stage_finds_its_target_built_and_unneeded_builds_end_with_the_last_stage(tmp_path):
    needs = ["--fetch", "three=endless", "--build", "two=fails", "--build", "two=make-two"]
    code, lines = run_stages_in(tmp_path, AHEAD, *needs)
    assert code == 0, lines
    endless = pathlib.Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/cmdline")
    deadline = time.monotonic() + 20
    while endless.exists() and endless.read_bytes():
        assert time.monotonic() < deadline, "still there"
        time.sleep(0.02)


def test_failed_cases_make_the_run_fail_even_if_the_stage_forgets_to(tmp_path, capsys):
    junit.write(tmp_path / "one" / "x.xml", "s", [junit.Case("a", "failed", "why")])
    assert run_stages.report(tmp_path, {"one": 1.0}) == 1
    assert capsys.readouterr().out.endswith("0 passed, 1 failed, 0 skipped\n")


# The demo ---------------------------------------------------------------------------------------


def test_the_demo_prints_the_output_of_ranks_and_the_speedup_of_two(capfd):
    say = "print('epoch 1 of 1: loss 0.5'); print('1 rank recognises 97.0 %; 6.4 s, 2000 images/s')"
    assert run_demo.show([sys.executable, "-c", say]) == 6.4
    assert capfd.readouterr().out.splitlines()[0] == "epoch 1 of 1: loss 0.5"
    text = "Two ranks are 1.88 times as fast as one: 3.4 s instead of 6.4 s."
    assert run_demo.comparison(6.4, 3.4, cores=2) == text
    assert "share the one core" in run_demo.comparison(6.4, 6.4, cores=1)
    with pytest.raises(SystemExit, match="ended with 3"):
        run_demo.show([sys.executable, "-c", "exit(3)"])
