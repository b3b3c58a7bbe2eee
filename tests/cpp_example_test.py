# SPDX-License-Identifier: Apache-2.0
"""The C++ example, built as an outside project against the installed library."""

import array
import math
import subprocess

import native
import pytest

DIGITS = native.ROOT / "examples" / "cpp" / "data" / "digits.txt"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    prefix, build = folder / "prefix", folder / "build"

    def cmake(*arguments):
        run = subprocess.run(
            ["cmake", *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr

    cmake("--install", native.BUILD, "--prefix", prefix, "--component", "hvd")
    source = native.ROOT / "examples" / "cpp"
    cmake("-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    cmake("--build", build)
    return build / "train_digits"


def read_weights(path):
    weights = array.array("f")
    weights.frombytes(path.read_bytes())
    assert len(weights) > 1000
    return weights


def norm(values):
    return math.sqrt(sum(value * value for value in values))


def test_four_ranks_end_with_the_weights_of_one(program, tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    subprocess.run([program, DIGITS, alone], check=True)  # no launcher, no settings
    outputs = native.run_ranks([str(program), str(DIGITS), str(together)], 4)
    assert outputs[0].startswith("4 ranks recognise 9")
    ranks = [tmp_path / f"together.{rank}" for rank in range(4)]
    assert len({path.read_bytes() for path in ranks}) == 1, "ranks differ"
    one, four = read_weights(tmp_path / "alone.0"), read_weights(ranks[0])
    difference = norm(a - b for a, b in zip(one, four))
    assert difference <= 1e-5 * norm(one)
