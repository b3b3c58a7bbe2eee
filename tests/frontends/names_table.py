"""Reads the tables of names in names/, and says where the installed package differs from them.

    names_table.py TABLE...     prints the differences of each table, as JSON

A table lists what programs written for Horovod 0.28 import and call:

    needs torch                     skip the table where this module is not installed
    <basics>                        a group of lines, which sections take in by the same word
    [horovod.torch] here            the lines below are about this module
    [horovod.spark.common.backend: SparkBackend(2)] here        the same for an object
    poll(handle)                    an attribute with its signature
    Average = 0                     one with its value
    mpi_ops compression             some of which only the names count
    gone parse_args -> launch.parse_args        one line that differs from its section

A word says what became of a name:

    here       it is there, and is called as before
    coming     a later version brings it
    gone       it does not come back

A name that is coming or gone must not be there, or a call of it says that it is not. The text after
the arrow stands in the first column of a row of docs/migrating.md; the last column says what to use
instead. The names below a module that is coming or gone are those that 0.28 has in it.

In a signature, arguments after `*` have no known place, `_`, `_1` and so on have no known name, and
`=...` is a default that is not known. A line that begins with a blank continues the line before it.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import json
import pathlib
import re
import sys
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parent / "names"
SHORT = {
    "{compression}": "compression=Compression.none",
    "{factors}": "prescale_factor=1.0, postscale_factor=1.0",
    "{set}": "process_set=global_process_set",
}
STATES = ("here", "coming", "gone")
FRAMEWORKS = ("torch", "tensorflow", "keras")


@dataclasses.dataclass
class Entry:
    """A line of a table; without a name it is about the module itself."""

    module: str
    state: str
    row: str  # of docs/migrating.md, for what is not here
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


# Reading ----------------------------------------------------------------------------------------


def lines_of(text: str) -> list[str]:
    """Without comments, and whole."""
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
    """The lines of the groups that a text defines: those up to the next group or section."""
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


# Comparing --------------------------------------------------------------------------------------


def parameters_of(owner: Any, name: str, value: Any) -> list[inspect.Parameter]:
    """Without the object that a method is called on."""
    if isinstance(value, type) and value.__init__ is not object.__init__:
        # A class of Keras says (*args, **kwargs) by its __new__.
        return list(inspect.signature(value.__init__).parameters.values())[1:]
    parameters = list(inspect.signature(value).parameters.values())
    is_method = isinstance(owner, type) and inspect.isfunction(inspect.getattr_static(owner, name))
    return parameters[1:] if is_method else parameters


def scope_of(module: Any) -> dict[str, Any]:
    """What names mean in defaults and expressions."""
    from horovod.common import basics, process_sets

    frameworks = {name: sys.modules[name] for name in FRAMEWORKS if name in sys.modules}
    return {**vars(basics), **vars(process_sets), **vars(module), **frameworks}


def differing_default(argument: ast.arg, default: ast.expr | None, found: Any, scope: Any) -> str:
    if default is None or (isinstance(default, ast.Constant) and default.value is ...):
        return ""
    wanted = eval(ast.unparse(default), scope)
    return "" if wanted == found else f"{argument.arg}={found!r}, not {ast.unparse(default)}"


def is_nameless(argument: ast.arg) -> bool:
    return re.fullmatch(r"_\d*", argument.arg) is not None


def differing_signature(wanted: ast.arguments, found: list[inspect.Parameter], scope: Any) -> str:
    """How a call of before would fail or mean something else; empty if it would not."""
    places = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    defaults = [None] * (len(wanted.args) - len(wanted.defaults)) + wanted.defaults
    for place, (argument, default) in enumerate(zip(wanted.args, defaults)):
        if len(places) <= place:
            return f"takes {len(places)} positional arguments; {argument.arg} is missing"
        parameter = places[place]
        if not is_nameless(argument) and argument.arg != parameter.name:
            return f"argument {place} is {parameter.name}, not {argument.arg}"
        if problem := differing_default(argument, default, parameter.default, scope):
            return problem
    by_name = {p.name: p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for argument, default in zip(wanted.kwonlyargs, wanted.kw_defaults):
        if argument.arg not in by_name:
            return f"has no argument {argument.arg}"
        if problem := differing_default(argument, default, by_name[argument.arg].default, scope):
            return problem
    if wanted.kwarg and not any(p.kind == p.VAR_KEYWORD for p in found):
        return "takes no further keywords"
    if wanted.vararg and not any(p.kind == p.VAR_POSITIONAL for p in found):
        return "takes no further arguments"
    signature = inspect.Signature(found)
    nameless = [is_nameless(argument) for argument in wanted.args]
    first = len(nameless) - nameless[::-1].index(True) if any(nameless) else 0
    named = {a.arg: None for a in [*wanted.args[first:], *wanted.kwonlyargs]}
    try:
        # All in their places, then by their names.
        signature.bind(*wanted.args, **{a.arg: None for a in wanted.kwonlyargs})
        signature.bind(*wanted.args[:first], **named)
    except TypeError as error:
        return f"a call of before fails: {error}"
    return ""


def differing_call(entry: Entry, owner: Any, value: Any, module: Any) -> str:
    if entry.signature is None:
        return ""
    try:
        found = parameters_of(owner, entry.name.split(".")[-1], value)
    except ValueError:  # native functions without arguments do not say so
        if entry.signature.args:
            return "does not show its signature"
        try:
            value()
        except TypeError as error:
            return str(error)
        except Exception:
            return ""  # before init
        return ""
    return differing_signature(entry.signature, found, scope_of(module))


@functools.cache
def made_by(module: Any, maker: str) -> Any:
    return eval(maker, scope_of(module)) if maker else module


def differing_here(entry: Entry) -> str:
    try:
        module = importlib.import_module(entry.module)
        owner, value = None, made_by(module, entry.maker)
    except Exception as error:
        return f"cannot be {'made' if entry.maker else 'imported'}: {error!r}"
    for name in entry.name.split(".") if entry.name else []:
        if not hasattr(value, name):
            return "is missing"
        owner, value = value, getattr(value, name)
    if entry.value and value != (wanted := eval(entry.value, scope_of(module))):
        return f"is {value!r}, not {wanted!r}"
    return differing_call(entry, owner, value, module)


def differing_absent(entry: Entry) -> str:
    try:
        value = made_by(importlib.import_module(entry.module), entry.maker)
        for name in entry.name.split(".") if entry.name else []:
            value = getattr(value, name)
    except (ImportError, AttributeError):
        return ""
    try:
        value()
    except Exception as error:
        if "is not there" in str(error):
            return ""
    return f"is there, although it is {entry.state}; change its line, and docs/migrating.md"


def differences(table: Table) -> list[str]:
    """In the order of the table: what a section reads must not be imported by a later one."""
    found = []
    for entry in table.entries:
        compare = differing_here if entry.state == "here" else differing_absent
        if problem := compare(entry):
            found.append(f"{entry.path} {problem}")
    return found


def main(names: list[str]) -> None:
    from horovod.common import basics

    basics.init()  # a job of one: some objects cannot be made without
    tables = read_all()
    print(json.dumps({name: differences(tables[name]) for name in names}))


if __name__ == "__main__":
    main(sys.argv[1:])
