# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels of this checkout: make_wheels.py FOLDER [--sysroot SYSROOT].

Writes the wheels of horovod and horovod-sparkdl to FOLDER. auditwheel determines the platform tag
of the first from the versions of the C library's symbols that it uses. That wheel also contains the
licences and the bill of materials of linked code. Both wheels depend on the commit and on the
Debian packages of this machine, not on its directories or the time.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import linked_parts
import wheel_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "wheel"  # as in pyproject.toml
PROJECTS = [ROOT, ROOT / "python" / "sparkdl_wheel"]


def commit_time() -> int:
    """Time of the commit in seconds since 1970, or SOURCE_DATE_EPOCH without git."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def build(project: pathlib.Path, folder: pathlib.Path, sysroot: str) -> pathlib.Path:
    """Builds the wheel of `project` with pip."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"]
    # Pass it even if it is empty: the CMake cache keeps the value of the last build.
    command.append(f"--config-settings=cmake.define.HVD_SYSROOT={sysroot}")
    target = folder / project.name
    subprocess.run([*command, f"--wheel-dir={target}", str(project)], check=True)
    return next(target.glob("*.whl"))


def platform_of(wheel: pathlib.Path) -> str:
    """The platform tag of the oldest systems that the wheel runs on."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer = json.loads(done.stdout)
    if not answer["overall_tag"].startswith("manylinux"):
        raise SystemExit(
            f"the wheel does not run on other machines: {json.dumps(answer, indent=1)}"
        )
    return answer["overall_tag"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--sysroot", default="", help="an older C library to link against")
    arguments = parser.parse_args()
    seconds = commit_time()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        for project in PROJECTS:
            built = build(project, pathlib.Path(scratch), arguments.sysroot)
            wheel = wheel_file.Wheel(built)
            if wheel.name == "horovod":
                parts = linked_parts.linked_parts(BUILD)
                wheel.set_platform(platform_of(built))
                for path, text in sorted(linked_parts.license_files(parts).items()):
                    wheel.add_license(path, text)
                bill = linked_parts.bill_of_materials(wheel.version, parts, seconds)
                wheel.files[f"{wheel.info}/sboms/horovod.cdx.json"] = bill.encode()
            print(wheel.write(arguments.folder, seconds))


if __name__ == "__main__":
    main()
