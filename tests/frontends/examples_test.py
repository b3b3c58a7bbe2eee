"""The examples, as a user runs them."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import suite

EXAMPLES = suite.HERE.parent.parent / "examples"


def weights(path: pathlib.Path) -> np.ndarray:
    values = np.frombuffer(path.read_bytes(), np.float32)
    assert len(values) > 5000
    return values


def test_two_ranks_end_with_the_weights_of_one_process(tmp_path):
    script = str(EXAMPLES / "01_pytorch_digits.py")
    alone = subprocess.run(
        [sys.executable, script, "--save", str(tmp_path / "alone")],
        env={k: v for k, v in os.environ.items() if "HOROVOD" not in k},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 ranks recognise 9" in alone.stdout
    outputs = suite.run_ranks([script, "--save", str(tmp_path / "together")], 2)
    assert "2 ranks recognise 9" in outputs[0] and "recognise" not in outputs[1]
    first, second = weights(tmp_path / "together.0"), weights(tmp_path / "together.1")
    np.testing.assert_array_equal(first, second)
    one = weights(tmp_path / "alone.0")
    # Rounding decides which of two equal pixels a pooling layer takes: 3e-4 was seen.
    assert np.linalg.norm(first - one) <= 3e-3 * np.linalg.norm(one)
