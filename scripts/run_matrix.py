# SPDX-License-Identifier: Apache-2.0
"""Runs the front-end tests of one build in several environments and prints a table.

run_matrix.py WHEELS FOLDER [NAME...]

WHEELS is the output folder of `make wheel`. Each row has its own environment in FOLDER/NAME, which
is reused until its requirements change. NAME selects rows. A row whose Python is not installed on
this machine reports that. The table is Markdown, for the page of the framework in docs/.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import glob
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import junit

ROOT = pathlib.Path(__file__).resolve().parent.parent
FRONTENDS = "tests/frontends"
TOOLS = ["pytest", "pytest-timeout", "cloudpickle"]
ROW_SECONDS = 1800


@dataclasses.dataclass(frozen=True)
class Row:
    """One environment and its tests: `tests` are arguments of pytest."""

    name: str
    python: str
    framework: str  # distribution whose version is in the table
    requirements: list[str]
    tests: list[str]


# Two ranks: more ranks would test the engine, which is the same in every environment.
TORCH_TESTS = [
    *(f"{FRONTENDS}/{name}_test.py" for name in ("torch", "examples", "wheel")),
    "-k=not 3_ranks and not 4_ranks",
]

TENSORFLOW_TESTS = [
    *(f"{FRONTENDS}/{name}_test.py" for name in ("tensorflow", "tensorflow_data", "keras")),
    "-k=not 3_ranks and not 4_ranks",
]

# The parts that depend on Spark: tasks, slots, failures, cancellation.
SPARK_TESTS = [
    f"{FRONTENDS}/spark_test.py",
    "-k=every_rank or exception or slots or cancelled or horovod_runner or connect",
]

# Old versions together and new versions together: three environments of 5 GB cover both ranges.
ROWS = [
    Row("torch-2.2", "3.9", "torch", ["torch==2.2.*", "numpy<2"], TORCH_TESTS),
    Row("torch-2.6", "3.11", "torch", ["torch==2.6.*", "numpy"], TORCH_TESTS),
    Row("torch-newest", "3.12", "torch", ["torch", "numpy"], TORCH_TESTS),
    # With Keras 2; TensorFlow 2.16 and later bring Keras 3.
    Row("tensorflow-2.15", "3.9", "tensorflow-cpu", ["tensorflow-cpu==2.15.*"], TENSORFLOW_TESTS),
    Row("tensorflow-2.18", "3.11", "tensorflow-cpu", ["tensorflow-cpu==2.18.*"], TENSORFLOW_TESTS),
    Row("tensorflow-newest", "3.12", "tensorflow-cpu", ["tensorflow-cpu"], TENSORFLOW_TESTS),
    # With pandas and numpy of the same age. This package has no Spark Connect server.
    Row("spark-3.5", "3.11", "pyspark", ["pyspark==3.5.*", "pandas<3", "numpy<2.4"], SPARK_TESTS),
    Row(
        *("spark-newest", "3.12", "pyspark", ["pyspark[connect]"]),
        [f"{FRONTENDS}/spark_connect_test.py", *SPARK_TESTS],
    ),
]


def find_python(version: str) -> str | None:
    """An interpreter of that version from PATH or pyenv."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    candidates = [
        shutil.which(f"python{version}"),
        *sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python{version}")),
    ]
    for path in filter(None, candidates):
        # A pyenv shim may exist without its interpreter.
        tried = subprocess.run([path, "-c", "import venv"], capture_output=True, check=False)
        if tried.returncode == 0:
            return path
    return None


def prepare(row: Row, python: str, wheels: list[str], folder: pathlib.Path) -> str:
    """Makes the row's environment with the wheels; returns its interpreter."""
    folder.mkdir(parents=True, exist_ok=True)
    requirements = folder / f"{row.name}.txt"
    requirements.write_text("\n".join([*row.requirements, *TOOLS, ""]))
    home = folder / row.name
    subprocess.run(
        [str(ROOT / "scripts" / "make_venv.sh"), str(home), str(requirements), python], check=True
    )
    own = str(home / "bin" / "python")
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # One by one: uninstalling an older horovod removes files that now belong to horovod-sparkdl.
    for wheel in wheels:
        subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    return own


def version_of(python: str, distribution: str) -> str:
    code = f"from importlib.metadata import version; print(version({distribution!r}))"
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def run(row: Row, python: str, folder: pathlib.Path) -> list[junit.Case]:
    results = folder / f"{row.name}.xml"
    results.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", f"--junitxml={results}", *row.tests]
    try:
        code = subprocess.run(command, cwd=ROOT, check=False, timeout=ROW_SECONDS).returncode
        problem = f"pytest ended with {code}" if code else ""
    except subprocess.TimeoutExpired:
        problem = f"it took longer than {ROW_SECONDS} s"
    cases = junit.read(results) if results.exists() else []
    if problem and not any(case.outcome == "failed" for case in cases):
        cases.append(junit.Case(row.name, "failed", problem))
    return cases


def line(row: Row, wheels: list[str], folder: pathlib.Path) -> tuple[str, bool]:
    """The row's line of the table, and whether its tests passed."""
    python = find_python(row.python)
    if python is None:
        wanted = " ".join(row.requirements)
        return f"| {row.python} | {wanted} | not run: there is no Python {row.python} here |", True
    print(f"== {row.name} with Python {row.python}", flush=True)
    try:
        own = prepare(row, python, wheels, folder)
    except subprocess.CalledProcessError as error:
        return f"| {row.python} | {row.name} | not run: {error} |", False
    cases = run(row, own, folder)
    counts = collections.Counter(case.outcome for case in cases)
    text = ", ".join(f"{counts[k]} {k}" for k in ("passed", "failed", "skipped") if counts[k])
    # "rank 0: the reason": every rank of a job prints it.
    first_lines = [case.reason.splitlines()[0] for case in cases if case.outcome == "skipped"]
    reasons = dict.fromkeys(text.removeprefix("rank 0: ") for text in first_lines)
    if reasons:
        text += f" ({'; '.join(reasons)})"
    version = version_of(own, row.framework)
    return f"| {row.python} | {row.framework} {version} | {text} |", not counts["failed"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    unknown = set(given.names) - {row.name for row in ROWS}
    if unknown:
        parser.error(f"there is no row {', '.join(sorted(unknown))}: {[r.name for r in ROWS]}")
    rows = [row for row in ROWS if not given.names or row.name in given.names]
    wheels = sorted(str(wheel.resolve()) for wheel in given.wheels.glob("*.whl"))
    lines = [line(row, wheels, given.folder.resolve()) for row in rows]
    print(f"\n{datetime.date.today():%d %B %Y}, {platform.system()} {platform.machine()}:\n")
    print("| Python | framework | tests |\n|---|---|---|")
    print("\n".join(text for text, _ in lines))
    return 0 if all(well for _, well in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
