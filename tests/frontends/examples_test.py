# SPDX-License-Identifier: Apache-2.0
"""Runs the examples as a user does."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import suite

EXAMPLES = suite.HERE.parent.parent / "examples"
# An import of torch takes longer than most examples, so one process per rank runs all of them.
RUN_ALL = """
import runpy, sys
import horovod.torch as hvd
for path in sys.argv[1:]:
    sys.argv = [path]
    sys.path[0] = path.rpartition("/")[0]
    print("==", path.rpartition("/")[2], flush=True)
    runpy.run_path(path, run_name="__main__")
    hvd.shutdown()
"""
SAYS = {
    "02_pytorch_accumulation.py": "epoch 8: ",
    "03_pytorch_process_sets.py": "learning rate 0.02: 9",
    "04_pytorch_adasum.py": "epoch 5: loss 0.",
    "05_pytorch_join.py": "rank 1 was the last",
    "06_pytorch_alltoall.py": "rank 0 asked for",
    "07_pytorch_timeline.py": "of 16 began before backward ended",
    "08_pytorch_benchmark.py": "Total img/sec on 2 rank(s)",
}

needs_keras = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)


def weights(path: pathlib.Path) -> np.ndarray:
    values = np.frombuffer(path.read_bytes(), np.float32)
    assert len(values) > 5000
    return values


def run_alone(*command: str) -> str:
    environment = {k: v for k, v in os.environ.items() if "HOROVOD" not in k}
    command = (sys.executable, *command)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def check_two_ranks_end_with_the_weights_of_one_process(example, tolerance, tmp_path, *options):
    command = [str(EXAMPLES / example), *options, "--save"]
    assert "1 rank recognises 9" in run_alone(*command, str(tmp_path / "alone"))
    outputs = suite.run_ranks([*command, str(tmp_path / "together")], 2)
    assert "2 ranks recognise 9" in outputs[0] and "recognise" not in outputs[1]
    first, second = weights(tmp_path / "together.0"), weights(tmp_path / "together.1")
    np.testing.assert_array_equal(first, second)
    one = weights(tmp_path / "alone.0")
    # Not exact: rounding decides which of two equal pixels a pooling layer takes.
    assert np.linalg.norm(first - one) <= tolerance * np.linalg.norm(one)


def test_two_ranks_end_with_the_weights_of_one_process(tmp_path):
    # The largest difference measured was 4e-7.
    check_two_ranks_end_with_the_weights_of_one_process(
        "01_pytorch_digits.py", 3e-3, tmp_path, "--epochs", "4"
    )


@needs_keras
def test_two_ranks_of_keras_end_with_the_weights_of_one_process(tmp_path):
    # The largest difference measured was 9e-3.
    check_two_ranks_end_with_the_weights_of_one_process("09_keras_digits.py", 3e-2, tmp_path)


@needs_keras
def test_the_example_of_warm_up_says_what_it_did():
    output = suite.run_ranks([str(EXAMPLES / "10_keras_warmup.py")], 2)[0]
    assert "Epoch 2: the learning rate has warmed up to 0.04" in output
    # Rates: half of the increase after one of two warm-up epochs; a tenth in the last epoch.
    assert "0.0300, 0.0400, 0.0400, 0.0400, 0.0400, 0.0400, 0.0400, 0.0040" in output
    assert "test images: 0.9" in output and "is from step 184" in output


@needs_keras
def test_the_example_of_a_function_runs_it_on_two_ranks():
    output = run_alone(str(EXAMPLES / "11_keras_run.py"))
    assert "rank 0 recognises 0.9" in output and "rank 1 0.9" in output


@needs_keras
@pytest.mark.parametrize("example", ["12_tensorflow2_loop.py", "13_tensorflow1_session.py"])
def test_two_ranks_of_tensorflow_learn_to_read(example):
    outputs = suite.run_ranks([str(EXAMPLES / example)], 2, timeout=100)
    assert "2 ranks recognise 9" in outputs[0] and "recognise" not in outputs[1]


def test_examples_run_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = sorted(path for path in EXAMPLES.glob("*_pytorch_*.py") if path.name in SAYS)
    assert len(examples) == len(SAYS)
    outputs = suite.run_ranks(["-c", RUN_ALL, *map(str, examples)], 2, HOROVOD_TIMELINE="DYNAMIC")
    parts = dict(part.split("\n", 1) for part in outputs[0].split("== ")[1:])
    for name, text in SAYS.items():
        assert text in parts[name], parts[name]
    assert json.loads((tmp_path / "timeline.json").read_text())
