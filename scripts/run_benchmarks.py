"""Runs the benchmark programs of a build folder, one after the other.

run_benchmarks.py BUILD
"""

import pathlib
import subprocess
import sys


def main(build: pathlib.Path) -> int:
    programs = sorted(path for path in (build / "bench").glob("*") if path.is_file())
    for program in programs:
        print(f"== {program.name}", flush=True)
        subprocess.run([program], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
