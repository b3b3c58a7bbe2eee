# SPDX-License-Identifier: Apache-2.0
"""Files of the wheel: the systems they run on, the symbols they export, their licences."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sysconfig
from importlib import metadata

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WHEEL = metadata.distribution("horovod")


def files() -> list[pathlib.Path]:
    return [pathlib.Path(WHEEL.locate_file(file)).resolve() for file in WHEEL.files]


def native_files() -> list[pathlib.Path]:
    return [file for file in files() if file.read_bytes()[:4] == b"\x7fELF"]


def readelf(path: pathlib.Path, *options: str) -> str:
    command = ["readelf", "--wide", *options, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needs(path: pathlib.Path, library: str) -> list[tuple[int, ...]]:
    """The symbol versions of a library, such as GLIBC, that a file needs."""
    found = re.findall(rf"Name: {library}_([\d.]+)", readelf(path, "--version-info"))
    return [tuple(int(part) for part in version.split(".")) for version in found]


def shown(path: pathlib.Path) -> set[str]:
    """The symbols that a library exports."""
    rows = [line.split() for line in readelf(path, "--dyn-syms").splitlines()]
    rows = [row for row in rows if len(row) >= 8 and row[4] in ("GLOBAL", "WEAK", "UNIQUE")]
    return {row[7].split("@")[0] for row in rows if row[6] not in ("UND", "ABS")}


def tag() -> tuple[int, ...]:
    """The version of the C library in the tag of the wheel."""
    line = re.search(r"^Tag: cp39-abi3-(.*)$", WHEEL.read_text("WHEEL"), re.MULTILINE)[1]
    if line.startswith("linux_"):
        pytest.skip(f"{line}: a wheel of `pip install .`, which is not meant for other machines")
    return tuple(int(part) for part in re.match(r"manylinux_(\d+)_(\d+)_", line).groups())


def test_no_file_needs_a_newer_c_library_than_the_tag_says():
    limit = tag()
    assert limit <= (2, 34)
    assert len(native_files()) == 5
    for file in native_files():
        assert max(needs(file, "GLIBC")) <= limit, file


def test_the_c_plus_plus_runtime_is_inside():
    for file in native_files():
        if file.name == "libhwy.so.1":  # built by Debian; needs only the libstdc++ of GCC 5
            assert max(needs(file, "GLIBCXX")) <= (3, 4, 21)
        else:
            assert "libstdc++" not in readelf(file, "--dynamic"), file


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("libhvd.so.1", r"hvd_\w+|horovod_\w+"),
        ("_native.abi3.so", "PyInit__native"),
        ("_adapter.so", r"hvd_tensorflow_\w+"),
    ],
)
def test_a_library_shows_its_own_functions_only(name: str, pattern: str):
    (file,) = [file for file in native_files() if file.name == name]
    names = shown(file)
    assert names and not [name for name in names if not re.fullmatch(pattern, name)]


def test_nothing_tells_where_or_when_it_was_built():
    for file in native_files():
        assert str(ROOT).encode() not in file.read_bytes(), file


def test_licences_and_versions_of_what_is_linked_in_are_there():
    tag()
    info = next(file for file in files() if file.name == "WHEEL").parent
    bill = json.loads((info / "sboms" / "horovod.cdx.json").read_text())
    parts = {part["name"]: part for part in bill["components"]}
    assert parts.keys() == {
        "Eigen",
        "Highway",
        "OpenSSL",
        "fmt",
        "libstdc++ and libgcc",
        "yaml-cpp",
    }
    for part in parts.values():
        source, version = re.fullmatch(r"pkg:deb/debian/([^@]+)@(.+)", part["purl"]).groups()
        assert part["version"] and version and part["licenses"]
        assert (info / "licenses" / source / "copyright").read_text()
    named = set(WHEEL.metadata.get_all("License-File"))
    kept = {str(path.relative_to(info / "licenses")) for path in info.glob("licenses/**/*")}
    assert named <= kept and {"LICENSE", "openssl/copyright", "common-licenses/GPL-3"} <= named
    (runtime,) = info.glob("licenses/gcc-*/copyright")
    assert "GCC Runtime Library Exception" in runtime.read_text()


def test_sparkdl_comes_with_a_wheel_of_its_own():
    site = pathlib.Path(sysconfig.get_path("purelib")).resolve()
    tops = {file.relative_to(site).parts[0] for file in files() if site in file.parents}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"horovod"}
    other = metadata.distribution("horovod-sparkdl")
    assert other.requires == [f"horovod=={WHEEL.version}"]
    assert {file.parts[0] for file in other.files if file.suffix == ".py"} == {"sparkdl"}
