# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on the sources of a build folder; skips sources unchanged since they were clean.

    run_tidy.py BUILD [--jobs N]

In the preset tidy, CMake combines several sources into one (unity build): parsing their headers
once makes it three times as fast. A clean result is recorded as an empty file, named by the hash of
the sources, the project headers that they include, the settings and the compile command. Tests and
benchmarks are left out: their macros make clang-tidy slow and noisy, and the sanitizers cover them.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The kernels are the same source for every instruction set: checking one is enough.
TIDY = ["clang-tidy-14", "--quiet", "--extra-arg=-DHWY_COMPILE_ONLY_STATIC"]


@functools.cache
def project_includes(path: pathlib.Path) -> tuple[pathlib.Path, ...]:
    names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)
    folders = [ROOT / "core", ROOT, path.parent]
    candidates = [folder / name for folder in folders for name in names]
    return tuple(candidate for candidate in candidates if candidate.is_file())


def with_headers(source: pathlib.Path) -> list[pathlib.Path]:
    found, todo = set(), [source]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo.extend(project_includes(path))
    return sorted(found)


def fingerprint(source: pathlib.Path, command: str) -> str:
    digest = hashlib.sha256(command.encode())
    for path in [ROOT / ".clang-tidy", *with_headers(source)]:
        digest.update(f"{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def check(source: pathlib.Path, build: pathlib.Path) -> bool:
    run = subprocess.run(
        [*TIDY, "-p", str(build), str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # only "N warnings generated"
        text=True,
        check=False,
    )
    if run.returncode != 0 or run.stdout.strip():
        print(run.stdout, flush=True)
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    clean = options.build / "clean"
    clean.mkdir(parents=True, exist_ok=True)
    work = {}
    for entry in json.loads((options.build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        is_test = source.stem.endswith(("_test", "_bench")) or "testing" in source.parts
        if not is_test:
            stamp = clean / fingerprint(source, entry["command"])
            if not stamp.exists():
                work[source] = stamp

    def check_one(source: pathlib.Path) -> bool:
        well = check(source, options.build)
        if well:
            work[source].touch()
        return well

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(check_one, work))
    print(f"{len(work)} sources looked at, {outcomes.count(False)} with findings")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
