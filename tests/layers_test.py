# SPDX-License-Identifier: Apache-2.0
"""Layers of core/ include only lower layers, and no two headers define the same type."""

import pathlib
import re
from collections.abc import Mapping

ROOT = pathlib.Path(__file__).resolve().parent.parent

LAYERS = ["base", "net", "transport", "collectives", "engine", "capi"]
ALLOWED = {layer: set(LAYERS[: i + 1]) for i, layer in enumerate(LAYERS)}
ALLOWED["launcher"] = {"launcher", "base", "net"}
ALLOWED["testing"] = {"testing", "base", "net", "transport"}


def bad_includes(source: pathlib.PurePath, text: str) -> list[str]:
    """The includes of `source` (relative to the root) that the order of layers forbids."""
    layer = source.parts[1] if source.parts[0] == "core" else source.parts[0]
    allowed = ALLOWED[layer]
    if source.name.endswith("_test.cc"):
        allowed = allowed | {"testing"}
    found = []
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE):
        included = name.split("/")[0]
        if "/" not in name:
            found.append(f'{source}: "{name}" has to start with its folder, as "{layer}/{name}"')
        elif included in ALLOWED and included not in allowed:
            found.append(f'{source}: {layer} must not include "{name}"')
    return found


def sources() -> list[pathlib.Path]:
    files = [*(ROOT / "core").rglob("*"), *(ROOT / "launcher").rglob("*")]
    return [path for path in files if path.suffix in (".h", ".cc")]


def included_files(source: pathlib.PurePath, text: str) -> set[pathlib.PurePath]:
    """The project files that `source` includes; both are relative to the root."""
    root = pathlib.PurePath("launcher" if source.parts[0] == "launcher" else "core")
    names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE)
    found = set()
    for name in names:
        path = pathlib.PurePath(name)
        found.add(path if path.parts[0] == root.name == "launcher" else "core" / path)
    return found


def is_test_code(path: pathlib.PurePath) -> bool:
    """Test code may include any folder of its layer, so it takes no part in the folder graph."""
    if path.parts[:2] == ("core", "testing") or "testing" in path.parts[:-1]:
        return True
    return path.stem == "testing" or path.stem.endswith(("_test", "_fuzz", "_fuzzer", "_bench"))


def find_cycle(graph: Mapping) -> list:
    """One cycle of the graph, with its first node repeated at the end, or an empty list."""
    done = set()
    path = []

    def visit(node) -> list:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        path.append(node)
        for following in sorted(graph.get(node, ())):
            if cycle := visit(following):
                return cycle
        path.pop()
        done.add(node)
        return []

    for node in sorted(graph):
        if cycle := visit(node):
            return cycle
    return []


def folder_graph(includes: Mapping[pathlib.PurePath, set[pathlib.PurePath]]) -> dict:
    """For each folder the folders that its files include.

    A folder and its own subfolder may include each other: core/transport has the interfaces that
    core/transport/shm implements, and the classes that assemble the implementations.
    """
    graph: dict[pathlib.PurePath, set[pathlib.PurePath]] = {}
    for source, targets in includes.items():
        if is_test_code(source):
            continue
        for target in targets:
            a, b = source.parent, target.parent
            if a != b and a not in b.parents and b not in a.parents:
                graph.setdefault(a, set()).add(b)
    return graph


def all_includes() -> dict[pathlib.PurePath, set[pathlib.PurePath]]:
    known = {path.relative_to(ROOT): path for path in sources()}
    return {
        name: {target for target in included_files(name, path.read_text()) if target in known}
        for name, path in known.items()
    }


def test_no_cycle_between_folders():
    graph = folder_graph(all_includes())
    assert len(graph) > 10
    cycle = find_cycle(graph)
    assert not cycle, " -> ".join(map(str, cycle))


def test_no_include_cycle():
    includes = all_includes()
    assert sum(map(len, includes.values())) > 500
    cycle = find_cycle(includes)
    assert not cycle, " -> ".join(map(str, cycle))


def test_shipped_code_includes_no_test_code():
    found = [
        f"{source} includes {target}"
        for source, targets in all_includes().items()
        if not is_test_code(source)
        for target in targets
        if is_test_code(target)
    ]
    assert not found, "\n".join(found)


def test_a_cycle_is_caught():
    path = pathlib.PurePath

    def folders(*pairs):
        includes = {}
        for source, target in pairs:
            includes.setdefault(path(source), set()).add(path(target))
        return find_cycle(folder_graph(includes))

    there = ("core/transport/shm/shm_group.h", "core/transport/control/ring_edge.h")
    back = ("core/transport/control/tree_control_plane.cc", "core/transport/shm/arena.h")
    assert folders(there, back)
    assert not folders(there)
    # Three folders, no two of which include each other.
    assert folders(("core/x/a/1.h", "core/x/b/2.h"), ("core/x/b/3.h", "core/x/c/4.h"),
                   ("core/x/c/5.cc", "core/x/a/6.h"))  # fmt: skip
    # A folder and its subfolder may, and so may a test.
    assert not folders(("core/x/1.h", "core/x/a/2.h"), ("core/x/a/2.h", "core/x/3.h"))
    assert not folders(there, ("core/transport/control/tree_test.cc", back[1]))

    text = '#include "transport/link.h"\n#include <vector>\n#include "launcher/job.h"\n'
    assert included_files(path("core/transport/mesh.h"), text) == {
        path("core/transport/link.h"),
        path("core/launcher/job.h"),
    }
    assert included_files(path("launcher/main.cc"), text) == {
        path("core/transport/link.h"),
        path("launcher/job.h"),
    }
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert not find_cycle({"a": {"b", "c"}, "b": {"c"}})


def test_no_include_points_to_the_right():
    found = [
        problem
        for path in sources()
        for problem in bad_includes(path.relative_to(ROOT), path.read_text())
    ]
    assert not found, "\n".join(found)


def test_sources_are_found_at_all():
    assert len(sources()) > 20


def test_an_include_to_the_right_is_caught():
    def problems(path, include):
        return bad_includes(pathlib.PurePath(path), f'#pragma once\n#include "{include}"\n')

    assert problems("core/net/rendezvous.cc", "transport/transport.h")
    assert problems("core/base/log.h", "net/fd.h")
    assert problems("core/transport/tcp/tcp.cc", "collectives/select.h")
    assert problems("launcher/main.cc", "transport/transport.h")
    assert problems("core/net/rendezvous.cc", "testing/assertions.h")
    assert problems("core/net/rendezvous.cc", "fd.h")
    assert not problems("core/net/rendezvous_test.cc", "testing/assertions.h")
    assert not problems("core/transport/tcp/tcp.cc", "net/fd.h")


def test_cmake_links_layers_in_the_same_order():
    seen = 0
    for layer in LAYERS:
        lists = ROOT / "core" / layer / "CMakeLists.txt"
        text = lists.read_text() if lists.exists() else ""
        for call in re.findall(r"hvd_layer\(.*?\)", text, re.DOTALL):
            depends = re.search(r"DEPENDS((?:\s+[a-z]+\b)*)", call)
            for name in depends.group(1).split() if depends else []:
                assert name in ALLOWED[layer] - {layer}, f"{layer} must not link {name}"
                seen += 1
    assert seen > 0


def types_of(text: str) -> list[str]:
    """The types that a header defines, with their namespaces: the names that the linker sees."""
    space, found = "", []
    for line in text.splitlines():
        if opened := re.match(r"(?:inline )?namespace ([\w:]+) \{", line):
            space = opened[1]
        elif re.match(r"(?:struct|class|enum class) [^;]*$", line.split("//")[0]):
            words = re.sub(r"\b(alignas|HVD_\w+)(\([^)]*\))?|\[\[\w+\]\]", "", line)
            if name := re.search(r"(?:struct|class)\s+(\w+(?:::\w+)*)", words):
                found.append(f"{space}::{name[1]}")
    return found


def test_no_two_headers_define_a_type_of_the_same_name():
    # With two types of one name the linker keeps one copy of each template instance, which is wrong
    # for one of the types (a violation of the one-definition rule). No compiler reports it.
    homes: dict[str, set[str]] = {}
    for path in sources():
        if path.suffix == ".h":
            for name in types_of(path.read_text()):
                homes.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    assert len(homes) > 100
    assert not {name: files for name, files in homes.items() if len(files) > 1}


READS_A_SETTING = re.compile(r"""(?:environ(?:\.get)?|getenv)\s*[\[(]\s*["']HOROVOD_""")


def test_no_source_but_the_core_reads_settings():
    """base/config.cc has the only parser; Python calls it."""
    files = [path for path in sources() if "test" not in str(path.relative_to(ROOT))]
    files += (ROOT / "python").rglob("*.py")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        # Setting a variable is not reading it.
        if READS_A_SETTING.search(line) and "] = " not in line
    ]
    assert not found, "\n".join(found)


def test_a_reader_of_settings_is_caught():
    for line in ('os.environ.get("HOROVOD_TLS")', "os.environ['HOROVOD_TLS']"):
        assert READS_A_SETTING.search(line)
    assert READS_A_SETTING.search('std::getenv("HOROVOD_RANK")')
