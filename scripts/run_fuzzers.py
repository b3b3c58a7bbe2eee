# SPDX-License-Identifier: Apache-2.0
"""Runs every fuzzer of a build folder for some seconds; a finding is a failure.

    run_fuzzers.py BUILD --seconds N [--jobs N] [--results FOLDER]

The start corpus is in core/**/fuzz_corpus/NAME. New inputs of a run are kept in
BUILD/fuzz_corpus/NAME, so that the next run continues from there. The input of a crash is written
to BUILD/fuzz_findings.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import junit

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run_fuzzer(fuzzer: pathlib.Path, build: pathlib.Path, seconds: int) -> junit.Case:
    discovered = build / "fuzz_corpus" / fuzzer.name
    findings = build / "fuzz_findings"
    for folder in (discovered, findings):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = [str(path) for path in (ROOT / "core").rglob(f"fuzz_corpus/{fuzzer.name}")]
    run = subprocess.run(
        [
            str(fuzzer),
            f"-max_total_time={seconds}",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            f"-artifact_prefix={findings}/{fuzzer.name}-",
            str(discovered),
            *seeds,
        ],
        env={"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"} | os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if run.returncode != 0:
        print(f"---- {fuzzer.name}\n{run.stdout[-20000:]}", end="")
        reason = f"exited with {run.returncode}; the input is in {findings}"
        return junit.Case(fuzzer.name, "failed", reason)
    stats = dict(
        line.removeprefix("stat::").split(":", 1)
        for line in run.stdout.splitlines()
        if line.startswith("stat::")
    )
    print(f"{fuzzer.name:<40} {stats.get('number_of_executed_units', '?').strip()} inputs, ok")
    return junit.Case(fuzzer.name, "passed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    fuzzers = sorted(path for path in (options.build / "fuzzers").glob("*") if path.is_file())
    if not fuzzers:
        print(f"{options.build}: no fuzzers")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        cases = list(
            pool.map(lambda fuzzer: run_fuzzer(fuzzer, options.build, options.seconds), fuzzers)
        )
    if options.results:
        junit.write(options.results / "fuzzers.xml", "fuzz", cases)
    return 1 if any(case.outcome == "failed" for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main())
