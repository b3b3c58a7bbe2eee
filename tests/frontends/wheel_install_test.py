# SPDX-License-Identifier: Apache-2.0
"""Installs the wheels into an empty environment, as users do."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WHEELS = sorted((ROOT / "build" / "dist").glob("*.whl"))
LIMIT = 100  # seconds


class Environment:
    """A virtual environment with the wheels, without a compiler on the PATH."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.python = str(folder / "bin" / "python")
        self.run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
        # The wheel needs cloudpickle, which is among the packages of the frameworks below.
        options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install"]
        self.run([*pip, *options, *map(str, WHEELS)])
        (self.site,) = folder.glob("lib/python*/site-packages")
        frameworks = pathlib.Path(importlib.util.find_spec("torch").origin).parent.parent
        (self.site / "frameworks.pth").write_text(f"{frameworks}\n")

    def run(self, command: list[str]) -> subprocess.CompletedProcess:
        done = subprocess.run(
            command,
            env={"PATH": "/nothing", "HOME": os.environ.get("HOME", "/")},
            cwd="/",  # so that Python does not import the sources
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
        assert done.returncode == 0, done.stderr
        return done

    def python_says(self, code: str) -> str:
        return self.run([self.python, "-c", code]).stdout.strip()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    if not WHEELS:
        pytest.skip("there is no wheel in build/dist; make wheel")
    return Environment(tmp_path_factory.mktemp("clean") / "venv")


def test_the_wheels_install_and_work_without_a_compiler(environment: Environment):
    code = """
import horovod.torch as hvd, sparkdl, torch
hvd.init()
assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1]
print(hvd.__file__, sparkdl.__file__)
"""
    places = environment.python_says(code).split()
    assert all(pathlib.Path(place).is_relative_to(environment.site) for place in places)


def test_files_of_an_older_horovod_are_named_with_the_remedy(environment: Environment):
    package = environment.site / "horovod"
    for name in ("metadata.json", "torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so"):
        left = package / name
        left.touch()
        code = """
try:
    import horovod.torch
except ImportError as error:
    print(error)
"""
        said = environment.python_says(code)
        assert name in said and f"rm -r {package}" in said
        left.unlink()
