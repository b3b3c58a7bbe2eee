"""Checks that all ranks of a job run together, and their outcomes as tests.

A check is a function `check_<sentence>(frontend)` of one of the modules that a job is told to run.
horovodrun starts the ranks; each runs every check of the job, one after the other, and a check
counts as passed if it has passed on every rank. A rank that fails shuts down, so that the others
fail too instead of waiting for it, and all start anew for the next check.

    suite.py FOLDER ADAPTER MODULE...     one rank, which writes FOLDER/<rank>.json
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
CHECK_SECONDS = 60  # a check that takes longer ends its process, and so the job


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
        frontend.everybody(f"after {check.__name__}")
    except Exception as error:
        if outcome[0] != "failed":
            outcome = "failed", f"another rank has failed: {error}"
        hvd.shutdown()
        frontend.start()
    faulthandler.cancel_dump_traceback_later()
    return outcome


def run_rank(folder: str, adapter: str, modules: list[str]) -> None:
    frontend = importlib.import_module(adapter).Frontend()
    frontend.start()
    outcomes = {}
    for module in modules:
        loaded = importlib.import_module(module)
        for name in checks_of(module):
            outcomes[name] = run_check(frontend, getattr(loaded, f"check_{name}"))
            path = pathlib.Path(folder) / f"{os.environ['HOROVOD_RANK']}.json"
            path.write_text(json.dumps(outcomes))
    frontend.hvd.shutdown()


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
    """Runs its checks when the first outcome is asked for."""

    def __init__(self, folder: pathlib.Path, adapter: str, modules: list[str], size: int):
        self.size, self.problem = size, ""
        self.outcomes: list[dict[str, tuple[str, str]]] = []
        command = [str(HERE / "suite.py"), str(folder), adapter, *modules]
        try:
            run_ranks(command, size, HOROVOD_DYNAMIC_PROCESS_SETS="1", HOROVOD_TIMELINE="DYNAMIC")
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            self.problem = str(problem)
        for rank in range(size):
            path = folder / f"{rank}.json"
            self.outcomes.append(json.loads(path.read_text()) if path.exists() else {})

    def outcome(self, check: str) -> tuple[str, str]:
        missing = ("failed", f"it did not come to an end. {self.problem}")
        by_rank = [outcomes.get(check, missing) for outcomes in self.outcomes]
        for wanted in ("failed", "skipped"):
            texts = [
                f"rank {r}: {text}" for r, (kind, text) in enumerate(by_rank) if kind == wanted
            ]
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

    suite.run_rank(sys.argv[1], sys.argv[2], sys.argv[3:])
