# SPDX-License-Identifier: Apache-2.0
"""Compares the installed package with the tables that names_table.py reads.

names_compare.py TABLE...     prints the differences of each table, as JSON
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import re
import sys
from typing import Any

from names_table import Entry, Table, read_all

FRAMEWORKS = ("torch", "tensorflow", "keras")


def parameters_of(owner: Any, name: str, value: Any) -> list[inspect.Parameter]:
    """The parameters of a call, without self."""
    if isinstance(value, type) and value.__init__ is not object.__init__:
        # __new__ of a Keras class has (*args, **kwargs), which hides the real signature.
        return list(inspect.signature(value.__init__).parameters.values())[1:]
    parameters = list(inspect.signature(value).parameters.values())
    is_method = isinstance(owner, type) and inspect.isfunction(inspect.getattr_static(owner, name))
    return parameters[1:] if is_method else parameters


def scope_of(module: Any) -> dict[str, Any]:
    """The values of the names that defaults and expressions use."""
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


def differing_places(wanted: ast.arguments, found: list[inspect.Parameter], scope: Any) -> str:
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
    return ""


def differing_keywords(wanted: ast.arguments, found: list[inspect.Parameter], scope: Any) -> str:
    by_name = {p.name: p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for argument, default in zip(wanted.kwonlyargs, wanted.kw_defaults):
        if argument.arg not in by_name:
            return f"has no argument {argument.arg}"
        if problem := differing_default(argument, default, by_name[argument.arg].default, scope):
            return problem
    kinds = {parameter.kind for parameter in found}
    if wanted.kwarg and inspect.Parameter.VAR_KEYWORD not in kinds:
        return "takes no further keywords"
    if wanted.vararg and inspect.Parameter.VAR_POSITIONAL not in kinds:
        return "takes no further arguments"
    return ""


def differing_binding(wanted: ast.arguments, found: list[inspect.Parameter]) -> str:
    """Binds one call with all arguments by position, and one with all known names."""
    nameless = [is_nameless(argument) for argument in wanted.args]
    first = len(nameless) - nameless[::-1].index(True) if any(nameless) else 0
    signature = inspect.Signature(found)
    try:
        signature.bind(*wanted.args, **{a.arg: None for a in wanted.kwonlyargs})
        named = [*wanted.args[first:], *wanted.kwonlyargs]
        signature.bind(*wanted.args[:first], **{argument.arg: None for argument in named})
    except TypeError as error:
        return f"a call of before fails: {error}"
    return ""


def differing_signature(wanted: ast.arguments, found: list[inspect.Parameter], scope: Any) -> str:
    """Why a call for 0.28 fails or has another meaning; empty if it works."""
    if [argument.arg for argument in wanted.args] == ["__"]:
        return differing_keywords(wanted, found, scope)
    return (
        differing_places(wanted, found, scope)
        or differing_keywords(wanted, found, scope)
        or differing_binding(wanted, found)
    )


def differing_call(entry: Entry, owner: Any, value: Any, module: Any) -> str:
    if entry.signature is None:
        return ""
    try:
        found = parameters_of(owner, entry.name.split(".")[-1], value)
    except ValueError:  # native functions without arguments have no signature
        if entry.signature.args:
            return "does not show its signature"
        try:
            value()
        except TypeError as error:
            return str(error)
        except Exception:
            return ""  # the call needs init(), so the function exists
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
        if "is not available yet" in str(error) or "is no longer available" in str(error):
            return ""
    return f"is there, although it is {entry.state}; change its line, and docs/migrating.md"


def differences(table: Table) -> list[str]:
    """Compares in the order of the table, because an import of a later section adds attributes."""
    found = []
    for entry in table.entries:
        compare = differing_here if entry.state == "here" else differing_absent
        if problem := compare(entry):
            found.append(f"{entry.path} {problem}")
    return found


def main(names: list[str]) -> None:
    from horovod.common import basics

    basics.init()  # a job of one rank: some objects cannot be made without a job
    tables = read_all()
    print(json.dumps({name: differences(tables[name]) for name in names}))


if __name__ == "__main__":
    main(sys.argv[1:])
