# SPDX-License-Identifier: Apache-2.0
"""Pickles the call that ranks make, or raises an error that names the part that cannot be pickled.

The variables that a function uses are pickled with it. A Spark session, a lock or an open file
cannot be pickled, and cloudpickle's own error names neither the variable nor the remedy. After a
failure this module searches for the variable: it pickles the parts of the call one by one, and then
the parts of the part that fails.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple

DEEPEST = 20  # levels of the search; objects may contain themselves
LONGEST = 200  # characters of the pickler's message
_GLOBAL_OPS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
# A class with one of these methods decides itself which values are pickled. They need not be its
# attributes.
_HOOKS = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")


class _Part(NamedTuple):
    what: str  # for the user: 'the variable "lock" that train captures'
    path: str  # as an expression: "lock", "self.lock", "args[1]"
    value: Any


class _Failure(NamedTuple):
    part: _Part
    reason: Exception


def pack(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Pickle func(*args, **kwargs). ValueError names the part that cannot be pickled."""
    import cloudpickle

    try:
        return cloudpickle.dumps((func, tuple(args), dict(kwargs)))
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(_explanation(func, args, kwargs, error)) from error


def _explanation(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> str:
    name = _name_of(func)
    refused = f"{name} cannot be sent to the ranks, because"
    failure = _first_failure([_Part(name, name, func), *_arguments(args, kwargs)])
    if failure is None:  # each part alone can be pickled
        return f"{refused} it cannot be pickled: {_line(error)}"
    # Descend through functions to the variable that the user has to change.
    variable = _deepest(failure, _parts_of_callable)
    innermost = _deepest(variable, _parts_of_object)
    inside = ""
    if innermost is not variable:
        inside = f" (in it {innermost.part.path}, {_kind_of(innermost.part.value)})"
    return (
        f"{refused} {variable.part.what}, {_kind_of(variable.part.value)}{inside}, cannot be "
        f"pickled: {_line(innermost.reason)}. Import and build it inside the function"
    )


def _deepest(failure: _Failure, parts_of: Callable[[_Part], Iterable[_Part]]) -> _Failure:
    for _ in range(DEEPEST):
        found = _first_failure(parts_of(failure.part))
        if found is None:
            break
        failure = found
    return failure


def _first_failure(parts: Iterable[_Part]) -> _Failure | None:
    import cloudpickle

    for part in parts:
        try:
            cloudpickle.dumps(part.value)
        except Exception as error:
            return _Failure(part, error)
    return None


def _arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[_Part]:
    for number, value in enumerate(args):
        yield _Part(f"args[{number}]", f"args[{number}]", value)
    for name, value in kwargs.items():
        yield _Part(f'kwargs["{name}"]', f'kwargs["{name}"]', value)


def _parts_of_callable(of: _Part) -> Iterator[_Part]:
    """The variables that are pickled with a function."""
    func = of.value
    if isinstance(func, functools.partial):
        yield _Part(f"the function of {of.what}", of.path, func.func)
        yield from _arguments(func.args, func.keywords)
    elif isinstance(func, types.MethodType):
        owner = _Part(f"the object of the method {_name_of(func)}", "self", func.__self__)
        for part in _parts_of_object(owner):
            yield part._replace(what=f'"{part.path}", which {_name_of(func)} needs')
        yield owner
        yield _Part(of.what, of.path, func.__func__)
    elif isinstance(func, types.FunctionType):
        yield from _parts_of_function(func)


def _parts_of_function(func: types.FunctionType) -> Iterator[_Part]:
    of = _name_of(func)
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or ()):
        with contextlib.suppress(ValueError):  # the variable has no value yet
            yield _Part(f'the variable "{name}" that {of} captures', name, cell.cell_contents)
    for name in sorted(_global_names(func.__code__) & func.__globals__.keys()):
        yield _Part(f'the global variable "{name}" that {of} uses', name, func.__globals__[name])
    for name, parameter in inspect.signature(func, follow_wrapped=False).parameters.items():
        if parameter.default is not parameter.empty:
            yield _Part(f'the default of the argument "{name}" of {of}', name, parameter.default)
    for name, value in func.__dict__.items():
        yield _Part(f'the attribute "{name}" of the function {of}', f"{of}.{name}", value)


def _global_names(code: types.CodeType) -> set[str]:
    """The global names that a function and the functions inside it use."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in _GLOBAL_OPS}
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return names.union(*map(_global_names, inner))


def _parts_of_object(of: _Part) -> Iterator[_Part]:
    value = of.value
    steps: Iterable[tuple[str, Any]] = ()
    if isinstance(value, Mapping):
        steps = ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        steps = ((f"[{number}]", part) for number, part in enumerate(value))
    elif isinstance(value, type):
        steps = ((f".{name}", part) for name, part in vars(value).items())
    elif _is_pickled_by_attributes(value):
        attributes = {**vars(value), "__class__": type(value)}
        steps = ((f".{name}", part) for name, part in attributes.items())
    for step, part in steps:
        yield _Part(of.path + step, of.path + step, part)


def _is_pickled_by_attributes(value: Any) -> bool:
    kind = type(value)
    is_plain = all(getattr(kind, hook, None) is getattr(object, hook, None) for hook in _HOOKS)
    return is_plain and hasattr(value, "__dict__") and not isinstance(value, types.FunctionType)


def _name_of(func: Any) -> str:
    name = getattr(func, "__qualname__", None) or type(func).__qualname__
    return name.rpartition("<locals>.")[2]


def _kind_of(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return f"of type {module}{kind.__qualname__}"


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:LONGEST].rstrip('.')}"
