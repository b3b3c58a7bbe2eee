# SPDX-License-Identifier: Apache-2.0
"""Trains examples/01_pytorch_digits.py on one and on two ranks and prints the speedup.

run_demo.py HOROVODRUN PYTHON
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "01_pytorch_digits.py"


def show(command: list[str]) -> float:
    """Runs a command, prints its lines as they arrive, and returns the seconds that it measured."""
    seconds = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            found = re.search(r"; ([0-9.]+) s, ", line)
            seconds = float(found[1]) if found else seconds
    if process.returncode != 0 or seconds is None:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return seconds


def comparison(one: float, two: float, cores: int) -> str:
    text = (
        f"Two ranks are {one / two:.2f} times as fast as one: {two:.1f} s instead of {one:.1f} s."
    )
    if cores < 2:
        text += " They share the one core of this machine: try it where there are two."
    return text


def main(arguments: list[str]) -> int:
    horovodrun, python = arguments
    example = os.path.relpath(EXAMPLE)
    print(f"One rank, on one thread: python {example}", flush=True)
    one = show([python, example])
    print(f"Two ranks, each on one thread: horovodrun -np 2 python {example}", flush=True)
    two = show([horovodrun, "-np", "2", python, example])
    print(comparison(one, two, len(os.sched_getaffinity(0))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
