# SPDX-License-Identifier: Apache-2.0
"""Runs the test programs of a build folder in parallel and shows only failures.

    run_tests.py BUILD --results FOLDER [--jobs N] [NAME...]

The programs and their properties are from ctest. Each case of a program with the label "gtest"
counts; if the program crashes or exceeds its TIMEOUT, the running case counts as failed. Any other
program is one case. RUN_SERIAL programs run alone, after all other programs.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import dispositions
import junit

SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    command: list[str]
    directory: str
    timeout: float
    serial: bool
    is_gtest: bool


def programs_of(build: pathlib.Path) -> list[Program]:
    listing = subprocess.run(
        ["ctest", "--test-dir", str(build), "--show-only=json-v1"],
        check=True,
        capture_output=True,
        text=True,
    )
    programs = []
    for test in json.loads(listing.stdout)["tests"]:
        if "command" not in test:
            raise SystemExit(f"{test['name']}: the program is not built")
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        programs.append(
            Program(
                name=test["name"],
                command=test["command"],
                directory=properties.get("WORKING_DIRECTORY", str(build)),
                timeout=float(properties.get("TIMEOUT", 600)),
                serial=bool(properties.get("RUN_SERIAL", False)),
                is_gtest="gtest" in properties.get("LABELS", []),
            )
        )
    return programs


def ending(code: int | None) -> str:
    if code is None:
        return "ran longer than its time limit and was killed"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"exited with {code}"


def cases_from_output(output: str, how_it_ended: str) -> list[junit.Case]:
    """The cases that a GoogleTest program finished before it crashed, and the one it was in."""
    cases, running = [], None
    for line in output.splitlines():
        match = re.match(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] ([^\s,]+\.[^\s,]+)", line)
        if not match:
            continue
        word, name = match.groups()
        if word == "RUN":
            running = name
        elif name == running:
            outcome = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[word]
            cases.append(junit.Case(name, outcome, "see the output above"))
            running = None
    cases.append(junit.Case(running or "outside of any test", "failed", how_it_ended))
    return cases


def run_program(program: Program, results: pathlib.Path) -> tuple[bool, str]:
    """Runs a program. Returns whether it passed, and its output."""
    results.mkdir(parents=True, exist_ok=True)
    xml = (results / f"{program.name}.xml").resolve()
    xml.unlink(missing_ok=True)
    command = program.command + ([f"--gtest_output=xml:{xml}"] if program.is_gtest else [])
    process = subprocess.Popen(
        command,
        cwd=program.directory,
        env=SANITIZER_ENVIRONMENT | os.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # so that a timeout kills the children too
    )
    start = time.monotonic()
    try:
        output, _ = process.communicate(timeout=program.timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        code = None
    if not program.is_gtest:
        outcome = "passed" if code == 0 else "failed"
        seconds = time.monotonic() - start
        junit.write(xml, program.name, [junit.Case("program", outcome, ending(code), seconds)])
        return code == 0, output
    cases = junit.read(xml) if xml.exists() else None
    if cases is None:
        junit.write(xml, program.name, cases_from_output(output, ending(code)))
    elif code != 0 and not any(case.outcome == "failed" for case in cases):
        # All cases passed, but the program failed: a leak report, or a crash in a destructor.
        after = [junit.Case("after the tests", "failed", ending(code))]
        junit.write(results / f"{program.name}-exit.xml", program.name, after)
    return code == 0 and cases is not None, output


def run_all(programs: list[Program], results: pathlib.Path, jobs: int) -> bool:
    well = True

    def run_and_show(program: Program) -> bool:
        start = time.monotonic()
        passed, output = run_program(program, results)
        if not passed:
            print(f"---- {program.name}\n{output}", end="")
        verdict = "ok" if passed else "FAILED"
        print(f"{program.name:<40} {time.monotonic() - start:7.1f} s  {verdict}", flush=True)
        return passed

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        well &= all(list(pool.map(run_and_show, [p for p in programs if not p.serial])))
    for program in programs:
        if program.serial:
            well &= run_and_show(program)
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="run only these programs")
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    programs = programs_of(options.build)
    if options.names:
        programs = [program for program in programs if program.name in options.names]
    if not programs:
        raise SystemExit(f"{options.build}: no test programs")
    dispositions.give_children_the_defaults()
    return 0 if run_all(programs, options.results, options.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
