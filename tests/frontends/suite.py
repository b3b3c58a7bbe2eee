# SPDX-License-Identifier: Apache-2.0
"""Checks that all ranks of a job run together, and their outcomes as tests.

A check is a function `check_<sentence>(frontend)` of one of the modules that a job is told to run.
horovodrun starts the ranks; each runs every check of the job, one after the other, and a check
counts as passed if it has passed on every rank. A rank that fails shuts down, so that the others
fail too instead of waiting for it, and all start again for the next check. A check that ends its
process fails alone: new ranks run the checks after it.

    suite.py FOLDER ADAPTER     one rank: reads FOLDER/checks.json, writes FOLDER/<rank>.json
"""

from __future__ import annotations

import ast
import faulthandler
import functools
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

import pytest
from horovod.runner import launch

HERE = pathlib.Path(__file__).resolve().parent
CHECK_SECONDS = 120  # a check that takes longer ends its process; on a busy machine some take 30
MOST_JOBS = 8  # where more checks than these end their processes, something else is wrong


class Skip(Exception):  # noqa: N818
    """Raised by a check that the installed framework cannot run."""


def checks_of(module: str) -> list[str]:
    """The names of a module's checks, without importing it: frameworks take seconds."""
    tree = ast.parse((HERE / f"{module}.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [f.name[len("check_") :] for f in functions if f.name.startswith("check_")]


# The ranks --------------------------------------------------------------------------------------


def run_check(frontend, check) -> tuple[str, str]:
    hvd = frontend.hvd
    faulthandler.dump_traceback_later(CHECK_SECONDS, exit=True)
    try:
        check(frontend)
        outcome = "passed", ""
    except Skip as reason:
        outcome = "skipped", str(reason)
    except Exception:
        outcome = "failed", traceback.format_exc()
    try:
        if outcome[0] == "failed":
            hvd.shutdown()
        # All ranks have to be well before the next check begins.
        frontend.wait_for_all(f"after {check.__name__}")
    except Exception as error:
        if outcome[0] != "failed":
            outcome = "failed", f"another rank has failed: {error}"
        hvd.shutdown()
        frontend.start()
    faulthandler.cancel_dump_traceback_later()
    return outcome


def run_rank(folder: pathlib.Path, adapter: str) -> None:
    report = Report(folder / f"{os.environ['HOROVOD_RANK']}.json")
    frontend = importlib.import_module(adapter).Frontend()
    frontend.start()
    for module, name in json.loads((folder / "checks.json").read_text()):
        report.begin(name)
        check = getattr(importlib.import_module(module), f"check_{name}")
        report.end(name, run_check(frontend, check))
    frontend.hvd.shutdown()


class Report:
    """What a rank has to say so far, in a file that is whole whenever the rank dies."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.content: dict = {"running": None, "outcomes": {}}

    def begin(self, check: str) -> None:
        self.content["running"] = check
        self._write()

    def end(self, check: str, outcome: tuple[str, str]) -> None:
        self.content["running"] = None
        self.content["outcomes"][check] = outcome
        self._write()

    def _write(self) -> None:
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(json.dumps(self.content))
        unfinished.replace(self.path)

    @staticmethod
    def read(path: pathlib.Path) -> tuple[str | None, dict[str, tuple[str, str]]]:
        """The check that was running, if any, and the outcomes of those that have ended."""
        if not path.exists():
            return None, {}
        content = json.loads(path.read_text())
        return content["running"], content["outcomes"]


# The job ----------------------------------------------------------------------------------------


def run_ranks(command: list[str], size: int, timeout: float = 300, **settings: str) -> list[str]:
    """What each rank writes; all of them have to end well."""
    # As tuned for ranks that share a machine.
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | settings
    with tempfile.TemporaryDirectory() as folder:
        launcher = [
            *(launch.horovodrun_path(), "-np", str(size), "-H", f"localhost:{size}"),
            *("--output-filename", folder, sys.executable),
        ]
        done = subprocess.run(
            [*launcher, *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"horovodrun ended with {done.returncode}: {done.stdout}"
        return [(pathlib.Path(folder) / f"rank.{r}" / "stdout").read_text() for r in range(size)]


class Job:
    """Runs its checks when an outcome is asked for that is not known yet.

    Ranks that die take the rest of their checks along. The check that was running then fails, and
    the next question starts new ranks for those without an outcome.
    """

    def __init__(
        self, folder: pathlib.Path, adapter: str, modules: list[str], size: int, **settings: str
    ):
        self.folder, self.adapter, self.size, self.settings = folder, adapter, size, settings
        self.waiting = [(module, check) for module in modules for check in checks_of(module)]
        self.outcomes: dict[str, tuple[str, str]] = {}
        self.jobs = 0

    def outcome(self, check: str) -> tuple[str, str]:
        while check not in self.outcomes:
            self._run_waiting()
        return self.outcomes[check]

    def _run_waiting(self) -> None:
        self.jobs += 1
        folder = self.folder / str(self.jobs)
        folder.mkdir()
        (folder / "checks.json").write_text(json.dumps(self.waiting))
        problem = self._run_ranks(folder)
        reports = [Report.read(folder / f"{rank}.json") for rank in range(self.size)]
        names = [check for _, check in self.waiting]
        begun = {running for running, _ in reports}
        last_begun = next((check for check in reversed(names) if check in begun), None)
        for check in names:
            by_rank = [outcomes.get(check) for _, outcomes in reports]
            if None not in by_rank:
                self.outcomes[check] = together(by_rank)
            elif check == last_begun:
                self.outcomes[check] = "failed", f"it has ended its process. {problem}"
            elif last_begun is None or self.jobs == MOST_JOBS:
                self.outcomes[check] = "failed", f"it was never run. {problem}"
        self.waiting = [each for each in self.waiting if each[1] not in self.outcomes]

    def _run_ranks(self, folder: pathlib.Path) -> str:
        """Why the ranks did not end well, or nothing."""
        command = [str(HERE / "suite.py"), str(folder), self.adapter]
        settings = {"HOROVOD_DYNAMIC_PROCESS_SETS": "1", "HOROVOD_TIMELINE": "DYNAMIC"}
        try:
            run_ranks(command, self.size, **{**settings, **self.settings})
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            return str(problem)
        return ""


def together(by_rank: list[tuple[str, str]]) -> tuple[str, str]:
    """The worst of the ranks' outcomes."""
    for wanted in ("failed", "skipped"):
        texts = [f"rank {r}: {text}" for r, (kind, text) in enumerate(by_rank) if kind == wanted]
        if texts:
            return wanted, "\n".join(texts)
    return "passed", ""


def cases_of(modules: dict[int, list[str]]) -> list:
    """Every check of the modules that run on a number of ranks, as parameters of a test."""
    return [
        pytest.param(size, check, id=f"{size}_ranks-{check}")
        for size, names in modules.items()
        for module in names
        for check in checks_of(module)
    ]


def jobs_of(adapter: str, modules: dict[int, list[str]], make_folder):
    """A function that gives the job of so many ranks, which runs once."""
    return functools.cache(
        lambda size: Job(make_folder(f"ranks{size}"), adapter, modules[size], size)
    )


def judge(outcome: tuple[str, str]) -> None:
    """Makes a test pass, skip or fail as its check has."""
    kind, text = outcome
    if kind == "skipped":
        pytest.skip(text)
    assert kind == "passed", text


if __name__ == "__main__":
    import suite  # so that checks and this see one class Skip

    suite.run_rank(pathlib.Path(sys.argv[1]), sys.argv[2])
