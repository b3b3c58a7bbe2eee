# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of names in names/.

A table lists what programs written for Horovod 0.28 import and call:

    needs torch                     skip the table where this module is not installed
    <basics>:                       starts a group of lines
    <basics>                        in a section: inserts the lines of the group
    [horovod.torch] here            the lines below are about this module
    [horovod.spark.common.backend: SparkBackend(2)] here        the same for an object
    poll(handle)                    an attribute with its signature
    Average = 0                     an attribute with its value
    mpi_ops compression             attributes of which only the names are compared
    gone parse_args -> launch.parse_args        a line with another state than its section

The state of a name is one of these words:

    here       the name exists, and programs call it as before
    coming     a later version will have it
    gone       no later version will have it

A name that is coming or gone must not exist, or a call of it has to raise "is not available
yet" or "is no longer available". The text after the arrow is in the first column of a row of
docs/migrating.md; the last column of the row names the replacement. The names below a module that
is coming or gone are those of 0.28.

In a signature, arguments after `*` have an unknown position, `_`, `_1` and so on have an unknown
name, and `=...` is an unknown default. `(__, *, a, b)` means that there are other arguments too.

A line that begins with a blank continues the line before it.
"""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent / "names"
SHORT = {
    "{compression}": "compression=Compression.none",
    "{factors}": "prescale_factor=1.0, postscale_factor=1.0",
    "{set}": "process_set=global_process_set",
}
STATES = ("here", "coming", "gone")


@dataclasses.dataclass
class Entry:
    """A line of a table. An entry without a name is about the module itself."""

    module: str
    state: str
    row: str  # the row of docs/migrating.md, for a name that is coming or gone
    name: str = ""
    signature: ast.arguments | None = None
    value: str = ""
    maker: str = ""

    @property
    def path(self) -> str:
        of = self.maker or self.module
        return f"{of}.{self.name}" if self.name else of


@dataclasses.dataclass
class Table:
    needs: list[str] = dataclasses.field(default_factory=list)
    entries: list[Entry] = dataclasses.field(default_factory=list)


def lines_of(text: str) -> list[str]:
    """The lines without comments, with continuation lines joined."""
    lines: list[str] = []
    for line in (whole.partition("#")[0].rstrip() for whole in text.splitlines()):
        if line.startswith(" ") and lines:
            lines[-1] += " " + line.strip()
        elif line:
            lines.append(line)
    for short, long in SHORT.items():
        lines = [line.replace(short, long) for line in lines]
    return lines


def groups_of(lines: list[str]) -> dict[str, list[str]]:
    """The lines of each group that a text defines. A group ends at the next group or section."""
    groups: dict[str, list[str]] = {}
    group = None
    for line in lines:
        if re.fullmatch(r"<\w+>:", line):
            group = groups.setdefault(line[:-1], [])
        elif line.startswith("["):
            group = None
        elif group is not None:
            group.append(line)
    return groups


def entries_of_line(line: str, section: Entry) -> list[Entry]:
    words, _, row = line.partition("->")
    first, _, rest = words.partition(" ")
    state, words = (first, rest) if first in STATES else (section.state, words)
    known = dataclasses.replace(section, state=state, row=row.strip() or section.row)
    called = re.fullmatch(r"\s*([\w.]+)(\(.*\))\s*", words)
    if called:
        arguments = ast.parse(f"def f{called[2]}: pass").body[0].args
        return [dataclasses.replace(known, name=called[1], signature=arguments)]
    name, equals, value = words.partition(" = ")
    if equals:
        return [dataclasses.replace(known, name=name.strip(), value=value.strip())]
    return [dataclasses.replace(known, name=name) for name in words.split()]


def read(text: str, groups: dict[str, list[str]]) -> Table:
    table = Table()
    section = None
    for line in lines_of(text):
        header = re.fullmatch(r"\[([\w.]+)(?:: (.*))?\] (\w+)(?: -> (.*))?", line)
        if line.startswith("needs "):
            table.needs += line.split()[1:]
        elif header:
            section = Entry(header[1], header[3], header[4] or "", maker=header[2] or "")
            table.entries.append(section)
        elif re.fullmatch(r"<\w+>:", line):
            section = None
        elif section is not None:
            for each in groups[line] if line.startswith("<") else [line]:
                table.entries += entries_of_line(each, section)
    for entry in table.entries:
        assert entry.state in STATES, f"{entry.path}: {entry.state}?"
        assert (entry.state == "here") == (not entry.row), f"{entry.path}: which row?"
    return table


def read_all() -> dict[str, Table]:
    texts = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.txt"))}
    groups = {
        name: lines for text in texts.values() for name, lines in groups_of(lines_of(text)).items()
    }
    return {name: read(text, groups) for name, text in texts.items()}
