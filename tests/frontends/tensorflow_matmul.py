# SPDX-License-Identifier: Apache-2.0
"""Whether TensorFlow alone can multiply matrices of bfloat16 on this machine.

On processors with AMX below some hypervisors its kernel for it ends the process by SIGILL. A check
that multiplies such matrices calls `skip_if_it_dies()` first.
"""

from __future__ import annotations

import functools
import pathlib
import signal
import subprocess
import sys

from suite import Skip

CPUINFO = pathlib.Path("/proc/cpuinfo")
# As in the layers of the checks, and with larger matrices: the kernel depends on the size.
PROGRAM = """
import os
os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="")
import tensorflow as tf

@tf.function
def in_a_graph(a, b):
    with tf.GradientTape() as tape:
        tape.watch(a)
        product = tf.matmul(a, b)
    return product, tape.gradient(product, a)

for rows, inner, columns in ((3, 5, 4), (6, 5, 4), (64, 64, 64), (256, 512, 128)):
    a = tf.ones((rows, inner), tf.bfloat16)
    b = tf.ones((inner, columns), tf.bfloat16)
    tf.matmul(a, b)
    in_a_graph(a, b)
"""
SECONDS = 100  # less than a check may take


def problem(cpuinfo: pathlib.Path, program: str) -> str:
    """Why no check may multiply such matrices; empty if they may. Checks report other errors.

    Importing TensorFlow again takes seconds, so this is skipped on processors without AMX.
    """
    flags = {word for word in cpuinfo.read_text().split() if word.startswith("amx")}
    if not flags:
        return ""
    tried = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    if tried.returncode >= 0:
        return ""
    name = signal.Signals(-tried.returncode).name
    return (
        f"TensorFlow's own multiplication of bfloat16 matrices ends by {name} here, "
        f"on a processor with {', '.join(sorted(flags))}"
    )


@functools.cache
def _here() -> str:
    return problem(CPUINFO, PROGRAM)


def skip_if_it_dies() -> None:
    if _here():
        raise Skip(_here())
