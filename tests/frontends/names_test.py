# SPDX-License-Identifier: Apache-2.0
"""Names that programs for Horovod 0.28 use exist, or docs/migrating.md names a replacement."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import types

import names_compare
import names_table
import pytest

MIGRATING = pathlib.Path(__file__).resolve().parents[2] / "docs" / "migrating.md"
TABLES = names_table.read_all()


def missing(table: str) -> list[str]:
    return [name for name in TABLES[table].needs if importlib.util.find_spec(name) is None]


def start(tables: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, names_compare.__file__, *tables],
        env=os.environ | {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def differences():
    """The differences of all tables whose frameworks are installed."""
    tables = [name for name in TABLES if not missing(name)]
    # PyTorch and TensorFlow each contain LLVM, and a process can load it only once.
    with_torch = [name for name in tables if "torch" in TABLES[name].needs]
    found = {}
    with contextlib.ExitStack() as stack:
        # Both run at the same time: imports take most of the time.
        processes = [
            stack.enter_context(start(group))
            for group in (with_torch, [name for name in tables if name not in with_torch])
        ]
        for process in processes:
            stack.callback(process.kill)
        for process in processes:
            output, errors = process.communicate(timeout=100)
            assert process.returncode == 0, errors
            found |= json.loads(output.splitlines()[-1])
    return found


@pytest.mark.parametrize("table", TABLES)
def test_names_are_as_the_table_says(table, differences):
    if missing(table):
        pytest.skip(f"not installed: {', '.join(missing(table))}")
    assert not differences[table], "\n".join(differences[table])


def rows_of(page: str) -> dict[str, str]:
    """The last column of each table row, by each name in the first column."""
    rows = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) > 1:
            rows |= dict.fromkeys(re.findall(r"`([^`]+)`", cells[0]), cells[-1])
    return rows


def test_the_page_says_what_to_use_instead_of_what_is_not_there():
    rows = rows_of(MIGRATING.read_text())
    absent = [entry for table in TABLES.values() for entry in table.entries if entry.row]
    assert absent
    assert not {entry.row for entry in absent} - {row for row, instead in rows.items() if instead}


# The comparison ---------------------------------------------------------------------------------


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("made_up")
    made.call = lambda a, b=1, *, c=2: None
    made.five = 5

    class Kind:
        def __init__(self, a, b=made.five):
            pass

        def method(self, a):
            pass

    made.Kind = Kind

    def later():
        raise RuntimeError("later is not available yet")

    made.later = later
    monkeypatch.setitem(sys.modules, "made_up", made)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("call(a, b=1, *, c=2)", ""),
        ("call(_, b=1)", ""),
        ("call(*, b=1)", "a call of before fails: missing a required argument: 'a'"),
        ("call(__, *, b=1)", ""),
        ("call(__, *, d)", "has no argument d"),
        ("call(b, a)", "argument 0 is a, not b"),
        ("call(a, b=2)", "b=1, not 2"),
        ("call(a, b, d)", "takes 2 positional arguments; d is missing"),
        ("call(a, *, d=1)", "has no argument d"),
        ("call(a, *, c=3)", "c=2, not 3"),
        ("call()", "a call of before fails: missing a required argument: 'a'"),
        ("call(a, **more)", "takes no further keywords"),
        ("call(a, *more)", "takes no further arguments"),
        ("five = 5", ""),
        ("five = 6", "is 5, not 6"),
        ("six", "is missing"),
        ("Kind(a, b=five)", ""),
        ("Kind(self, a)", "argument 0 is a, not self"),
        ("Kind.method(a)", ""),
        ("Kind.method()", "a call of before fails: missing a required argument: 'a'"),
        ("gone six -> row", ""),
        ("coming later -> row", ""),
        (
            "gone five -> row",
            "is there, although it is gone; change its line, and docs/migrating.md",
        ),
    ],
)
def test_a_difference_is_found(module, line, problem):
    table = names_table.read(f"[made_up] here\n{line}\n", {})
    found = names_compare.differences(table)
    assert [text.partition(" ")[2] for text in found] == ([problem] if problem else [])


def test_a_difference_of_an_object_is_found(module):
    text = "[made_up: Kind(1)] here\nmethod(a)\nmethod(b)\n[made_up: Kind()] here\n"
    swapped, unmade = names_compare.differences(names_table.read(text, {}))
    assert swapped == "Kind(1).method argument 0 is a, not b"
    assert unmade.startswith("Kind() cannot be made: TypeError")


def test_a_module_is_missing_or_there_as_the_table_says(module):
    text = "[made_up] gone -> row\n[no_such_module] here\n[no_such_module] gone -> row\nname\n"
    found = names_compare.differences(names_table.read(text, {}))
    assert [text.split()[:2] for text in found] == [["made_up", "is"], ["no_such_module", "cannot"]]
