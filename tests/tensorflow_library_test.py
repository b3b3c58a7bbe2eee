# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow adapter without TensorFlow, or with one that lacks required symbols."""

import subprocess
import sys

import native

ASK = """
import ctypes, sys
for library in sys.argv[2:]:
    ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
adapter = ctypes.CDLL(sys.argv[1])
for question in (adapter.hvd_tensorflow_problem, adapter.hvd_tensorflow_xla_problem):
    question.restype = ctypes.c_char_p
    print(question().decode())
"""


def problems_with(*libraries: str) -> list[str]:
    """Its problems after these libraries are loaded: in general, and for compiled functions."""
    adapter = str(native.BUILD / "python" / "_adapter.so")
    done = subprocess.run(
        [sys.executable, "-c", ASK, adapter, *libraries],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_it_reports_that_tensorflow_is_missing():
    assert ["import tensorflow first" in problem for problem in problems_with()] == [True] * 2


def test_it_names_what_a_tensorflow_lacks(tmp_path):
    poor = str(tmp_path / "poor.so")
    subprocess.run(
        ["cc", "-shared", "-o", poor, "-Wl,-soname,libtensorflow_framework.so.2", "-x", "c", "-"],
        input="void TF_NewStatus(void) {}",
        text=True,
        check=True,
        timeout=60,
    )
    problem, _ = problems_with(poor)
    assert "TF_NewAsyncKernelBuilder" in problem and "TF_NewStatus" not in problem
    assert "2.13 or later" in problem
