# SPDX-License-Identifier: Apache-2.0
"""The packages below python/horovod do not import each other in a circle.

Imports inside functions count. Modules that importlib loads by name do not: horovod._keras loads
its backends that way, and a backend may import horovod._keras.
"""

import ast
import graphlib
import pathlib

import pytest

PYTHON = pathlib.Path(__file__).resolve().parent.parent / "python"


def package_of(module: str) -> str | None:
    """The package below `horovod`; None for other modules and for `horovod` itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == "horovod" and len(parts) > 1 else None


def imported_by(source: str) -> set[str]:
    """The full names of everything that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports have to be absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imports_between(files: dict[str, str]) -> dict[str, set[str]]:
    """Package -> the packages that its files import; `files` maps module names to their text."""
    packages = {package_of(module) for module in files} - {None}
    edges: dict[str, set[str]] = {package: set() for package in packages}
    for module, source in files.items():
        package = package_of(module)
        if package is not None:
            targets = {package_of(name) for name in imported_by(source)}
            # `from horovod import __version__` names no package.
            edges[package] |= targets & (packages - {package})
    return edges


def order_of(files: dict[str, str]) -> list[str]:
    """The packages, each after those that it imports; raises CycleError where there is no order."""
    return list(graphlib.TopologicalSorter(imports_between(files)).static_order())


def sources() -> dict[str, str]:
    found = {}
    for path in (PYTHON / "horovod").rglob("*.py"):
        parts = path.relative_to(PYTHON).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path.read_text()
    return found


def test_packages_import_each_other_one_way_only():
    order = order_of(sources())
    assert {"_core", "_keras", "common", "keras", "runner", "tensorflow", "torch"} <= set(order)
    assert order.index("_keras") < order.index("tensorflow")


def test_a_cycle_is_caught():
    lazy = "def f():\n    from horovod.tensorflow import functions\n"
    with pytest.raises(graphlib.CycleError):
        order_of({"horovod.tensorflow.a": "import horovod._keras.b", "horovod._keras.b": lazy})
    with pytest.raises(graphlib.CycleError):
        order_of({"horovod.a": "from horovod import b", "horovod.b": "import horovod.a"})
    assert order_of({"horovod.a.x": "import horovod.a.y", "horovod.b": "import horovod.a.x"})
