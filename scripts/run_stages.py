"""Runs stages (make targets) one after the other and adds up what they tested.

    run_stages.py RESULTS STAGE...

A stage leaves JUnit files in RESULTS/STAGE. A failed stage does not stop the ones after it, and
one that fails without a failed test (formatting, a build that breaks) counts as a failed test, so
that the last line never says "0 failed" when something did. The slowest tests are listed: this is
where to look when the whole takes too long.
"""

import pathlib
import shutil
import subprocess
import sys
import time

import junit

SLOWEST = 20


def run_stage(stage: str, folder: pathlib.Path) -> None:
    command = subprocess.run(["make", "--no-print-directory", stage], check=False)
    cases = junit.read_folder(folder)
    if command.returncode != 0 and not any(case.outcome == "failed" for case in cases):
        reason = f"make {stage} ended with {command.returncode}"
        junit.write(folder / "stage.xml", stage, [junit.Case("stage", "failed", reason)])


def report(results: pathlib.Path, seconds: dict[str, float]) -> int:
    """Prints the summary and returns the number of failures."""
    totals = dict.fromkeys(("passed", "failed", "skipped"), 0)
    print()
    for stage, duration in seconds.items():
        cases = junit.read_folder(results / stage)
        counts = {key: sum(case.outcome == key for case in cases) for key in totals}
        text = ", ".join(f"{count} {key}" for key, count in counts.items() if count) or "ok"
        print(f"{stage:<14}{duration:7.1f} s  {text}")
        for key, count in counts.items():
            totals[key] += count
    print("slowest tests:")
    timed = [(case, stage) for stage in seconds for case in junit.read_folder(results / stage)]
    timed.sort(key=lambda each: each[0].seconds, reverse=True)
    for case, stage in timed[:SLOWEST]:
        print(f"  {case.seconds:7.1f} s  {stage}: {case.name}")
    for outcome in ("skipped", "failed"):
        for stage in seconds:
            for case in junit.read_folder(results / stage):
                if case.outcome == outcome:
                    first_line = (case.reason.splitlines() or [""])[0]
                    print(f"{outcome}: {stage}: {case.name}: {first_line}")
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return totals["failed"]


def main(arguments: list[str]) -> int:
    results, stages = pathlib.Path(arguments[0]), arguments[1:]
    shutil.rmtree(results, ignore_errors=True)
    seconds = {}
    for stage in stages:
        print(f"== {stage}", flush=True)
        start = time.monotonic()
        run_stage(stage, results / stage)
        seconds[stage] = time.monotonic() - start
    return 1 if report(results, seconds) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
