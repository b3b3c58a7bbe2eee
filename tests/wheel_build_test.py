# SPDX-License-Identifier: Apache-2.0
"""The steps of `make wheel` and `pip install .` before and after the compiler."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import zipfile

import linked_parts
import pytest
import wheel_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIME = 1_700_000_000  # in November 2023


def make_wheel(folder: pathlib.Path, *, reverse: bool) -> pathlib.Path:
    """Makes a small wheel with the current time and with its files in normal or reverse order."""
    path = folder / "thing-1.0-cp39-abi3-linux_x86_64.whl"
    files = {
        "thing/__init__.py": b"",
        "thing-1.0.data/scripts/run": b"#!/bin/sh\n",
        "thing-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: cp39-abi3-linux_x86_64\n",
        "thing-1.0.dist-info/METADATA": b"Metadata-Version: 2.4\nName: thing\n\nLong text\n\nmore",
        "thing-1.0.dist-info/RECORD": b"wrong,,\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(files, reverse=reverse):
            entry = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 40 if reverse else 50))
            entry.external_attr = (0o100775 if name.endswith("run") else 0o100664) << 16
            archive.writestr(entry, files[name])
    return path


def test_the_same_files_make_the_same_wheel(tmp_path: pathlib.Path):
    results = []
    for reverse in (False, True):
        folder = tmp_path / str(reverse)
        folder.mkdir()
        wheel = wheel_file.Wheel(make_wheel(folder, reverse=reverse))
        wheel.set_platform("manylinux_2_34_x86_64")
        wheel.add_license("other/copyright", "as you like it")
        results.append(wheel.write(folder, TIME))
    assert results[0].read_bytes() == results[1].read_bytes()
    assert results[0].name == "thing-1.0-cp39-abi3-manylinux_2_34_x86_64.whl"


def test_a_changed_wheel_is_a_valid_one(tmp_path: pathlib.Path):
    wheel = wheel_file.Wheel(make_wheel(tmp_path, reverse=False))
    wheel.set_platform("manylinux_2_34_x86_64")
    wheel.add_license("other/copyright", "as you like it")
    again = wheel_file.Wheel(wheel.write(tmp_path, TIME))
    assert again.files["thing-1.0.dist-info/licenses/other/copyright"] == b"as you like it"
    assert b"Tag: cp39-abi3-manylinux_2_34_x86_64\n" in again.files["thing-1.0.dist-info/WHEEL"]
    head, text = again.files["thing-1.0.dist-info/METADATA"].decode().split("\n\n", 1)
    assert head.endswith("\nLicense-File: other/copyright") and text == "Long text\n\nmore"
    record = again.files["thing-1.0.dist-info/RECORD"].decode()
    paths = [line.split(",")[0] for line in record.splitlines()]
    assert sorted(paths) == sorted(again.files) and paths[-1].endswith("RECORD")
    # echo -n "" | sha256sum
    assert "thing/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n" in record
    with zipfile.ZipFile(next(tmp_path.glob("*many*"))) as archive:
        script = archive.getinfo("thing-1.0.data/scripts/run")
    assert script.external_attr >> 16 == 0o100755
    assert script.date_time == (2023, 11, 14, 22, 13, 20)


def test_a_bill_of_materials_depends_on_nothing_but_the_parts():
    part = linked_parts.Part("zlib", "1:1.2-3", "zlib", "Zlib", "Copyright: some people")
    bills = {linked_parts.bill_of_materials("1.0", [part], TIME) for _ in range(2)}
    (bill,) = bills
    assert '"pkg:deb/debian/zlib@1:1.2-3"' in bill and '"Zlib"' in bill and "2023-11-14" in bill
    assert linked_parts.bill_of_materials("1.0", [], TIME) != bill


def test_code_with_an_unknown_licence_stops_the_build(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linked_parts, "_files_of", lambda build: {"/usr/include/stdio.h"})
    assert linked_parts.linked_parts(ROOT) == []  # the C library
    monkeypatch.setattr(linked_parts, "_files_of", lambda build: {"/usr/bin/make"})
    with pytest.raises(SystemExit, match="the build uses make: what is its licence"):
        linked_parts.linked_parts(ROOT)
    monkeypatch.setattr(linked_parts, "_files_of", lambda build: {str(ROOT / "README.md")})
    with pytest.raises(SystemExit, match=r"no Debian package has .*README\.md"):
        linked_parts.linked_parts(ROOT)


def configure_says(**variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if "HOROVOD" not in name}
    done = subprocess.run(
        ["cmake", "-P", str(ROOT / "cmake" / "HvdFormerChoices.cmake")],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return re.sub(r"\s+", " ", done.stderr)


def test_variables_that_chose_parts_of_0_28_are_named_and_do_no_harm():
    said = configure_says(HOROVOD_GPU_ALLREDUCE="NCCL", HOROVOD_WITH_PYTORCH="1")
    assert "choose nothing here: HOROVOD_GPU_ALLREDUCE=NCCL HOROVOD_WITH_PYTORCH=1." in said
    assert configure_says(HOROVOD_TIMELINE="x.json") == ""
