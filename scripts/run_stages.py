# SPDX-License-Identifier: Apache-2.0
"""Runs stages (make targets) one after the other and sums up their test results.

    run_stages.py RESULTS STAGE... [--fetch STAGE=TARGET]... [--build STAGE=TARGET]...

A stage writes JUnit files to RESULTS/STAGE. A failed stage does not stop later stages. A stage that
fails without a failed test (formatting, a broken build) counts as one failed test, so that the last
line never reports "0 failed" after a failure. The slowest tests are listed, to show where time can
be gained.

Tests wait much of their time. --build names a target that a stage needs: it is built in the
background while earlier stages run, one target after the other. --fetch does the same for
downloads. A stage starts when its targets have ended, and makes those that failed.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import junit

SLOWEST = 20
# Downloads also need CPU time (unpacking); with the low priority of a build they would starve.
FETCH_NICE, BUILD_NICE = 5, 19


class Ahead:
    """Makes targets in the background, in their order, for the stages that need them.

    The output is dropped: a stage whose target failed makes it again and shows the error.
    """

    def __init__(self, targets: list[tuple[str, str]], nice: int):
        self._targets = targets
        self._nice = nice
        self._lock = threading.Lock()
        self._running: tuple[str, subprocess.Popen] | None = None
        self._thread = threading.Thread(target=self._work, name="ahead", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._targets:
                    self._running = None
                    return
                stage, target = self._targets.pop(0)
                process = start_in_background(target, self._nice)
                self._running = stage, process
            process.wait()

    def wait_for(self, stage: str) -> None:
        """Blocks until all targets of this stage have ended."""
        with self._lock:
            self._targets = [each for each in self._targets if each[0] != stage]
            running = self._running
        if running is not None and running[0] == stage:
            running[1].wait()

    def stop(self) -> None:
        with self._lock:
            self._targets = []
            if self._running is not None and self._running[1].poll() is None:
                os.killpg(self._running[1].pid, signal.SIGKILL)
        self._thread.join()


def start_in_background(target: str, nice: int) -> subprocess.Popen:
    # A new session, so that it can be killed with all its children.
    process = subprocess.Popen(
        ["nice", "-n", str(nice), "make", "--no-print-directory", target],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # With autogroup scheduling the kernel divides CPU time between sessions first: lower the
    # priority of the session too.
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/{process.pid}/autogroup").write_text(str(nice))
    return process


def run_stage(stage: str, folder: pathlib.Path) -> None:
    command = subprocess.run(
        ["make", "--no-print-directory", stage], stdin=subprocess.DEVNULL, check=False
    )
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


def run_stages(stages: list[str], results: pathlib.Path, ahead: list[Ahead]) -> dict[str, float]:
    """Runs the stages. Returns the seconds of each, including the wait for its targets."""
    seconds = {}
    for stage in stages:
        print(f"== {stage}", flush=True)
        start = time.monotonic()
        for each in ahead:
            each.wait_for(stage)
        run_stage(stage, results / stage)
        seconds[stage] = time.monotonic() - start
    return seconds


def main() -> int:
    def need(text: str) -> tuple[str, str]:
        stage, _, target = text.partition("=")
        return stage, target

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("stages", nargs="+")
    parser.add_argument("--fetch", type=need, action="append", default=[])
    parser.add_argument("--build", type=need, action="append", default=[])
    options = parser.parse_args()
    shutil.rmtree(options.results, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    ahead = [Ahead(options.fetch, FETCH_NICE), Ahead(options.build, BUILD_NICE)]
    try:
        seconds = run_stages(options.stages, options.results, ahead)
    finally:
        for each in ahead:
            each.stop()
    return 1 if report(options.results, seconds) else 0


if __name__ == "__main__":
    sys.exit(main())
