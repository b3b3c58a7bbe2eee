# SPDX-License-Identifier: Apache-2.0
"""Runs checks on all ranks of a job and turns their outcomes into tests.

A check is a function `check_<sentence>(frontend)` of one of the job's modules. horovodrun starts
the ranks. Each rank runs every check of the job, one after the other. A check has passed if it has
passed on every rank. A rank that fails shuts down, so the other ranks fail too and do not wait for
it. Then all ranks start again for the next check. If a check ends its process, only this check
fails: new ranks run the checks after it.

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
CHECK_SECONDS = 120  # a longer check ends its process; on a busy machine some checks take 30 s
MOST_JOBS = 8  # if more checks end their processes, the cause is not in the checks


class Skip(Exception):  # noqa: N818
    """Raised by a check that the installed framework cannot run."""


def checks_of(module: str) -> list[str]:
    """The names of a module's checks, without an import: importing a framework takes seconds."""
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
        # All ranks have to work before the next check begins.
        frontend.barrier(f"after {check.__name__}")
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
    """The outcomes of one rank so far, in a file that is complete even if the rank dies."""

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
        """The check that was running, if any, and the outcomes of the checks that have ended."""
        if not path.exists():
            return None, {}
        content = json.loads(path.read_text())
        return content["running"], content["outcomes"]


# The job ----------------------------------------------------------------------------------------


def run_ranks(command: list[str], size: int, timeout: float = 300, **settings: str) -> list[str]:
    """Returns the standard output of each rank. Every rank has to exit with 0."""
    # The ranks share one machine, so each gets one thread.
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
    """Runs its checks when a test asks for an outcome that does not exist yet.

    If ranks die, the check that was running fails, and the checks after it have no outcome. The
    next call of outcome() then starts new ranks for these checks.
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
        """The reason why the ranks failed, or an empty text."""
        command = [str(HERE / "suite.py"), str(folder), self.adapter]
        settings = {"HOROVOD_DYNAMIC_PROCESS_SETS": "1", "HOROVOD_TIMELINE": "DYNAMIC"}
        try:
            run_ranks(command, self.size, **{**settings, **self.settings})
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            return str(problem)
        return ""


def together(by_rank: list[tuple[str, str]]) -> tuple[str, str]:
    """The worst outcome of all ranks: failed, then skipped, then passed."""
    for wanted in ("failed", "skipped"):
        texts = [f"rank {r}: {text}" for r, (kind, text) in enumerate(by_rank) if kind == wanted]
        if texts:
            return wanted, "\n".join(texts)
    return "passed", ""


def cases_of(modules: dict[int, list[str]]) -> list:
    """Every check, as parameters of a test. `modules` maps a number of ranks to module names."""
    return [
        pytest.param(size, check, id=f"{size}_ranks-{check}")
        for size, names in modules.items()
        for module in names
        for check in checks_of(module)
    ]


def jobs_of(adapter: str, modules: dict[int, list[str]], make_folder):
    """A function that returns the job for a number of ranks. Each job runs once."""
    return functools.cache(
        lambda size: Job(make_folder(f"ranks{size}"), adapter, modules[size], size)
    )


def judge(outcome: tuple[str, str]) -> None:
    """Lets a test pass, skip or fail like its check."""
    kind, text = outcome
    if kind == "skipped":
        pytest.skip(text)
    assert kind == "passed", text


if __name__ == "__main__":
    import suite  # the checks import the same module, so both use one class Skip

    suite.run_rank(pathlib.Path(sys.argv[1]), sys.argv[2])
