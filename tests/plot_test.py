# SPDX-License-Identifier: Apache-2.0
"""The plot of the README: drawn from the figures of make bench, and from nothing else."""

import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

pytestmark = pytest.mark.timeout(60)
SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "plot_benchmarks.py"
BENCH = {
    "machine": "a processor, 2 cores",
    "lines": [
        {
            "part": "one host",
            "ranks": 2,
            "bytes": size,
            "us": {"ours": [1.0 * size, 9e9], "openmpi": [2.0 * size], "gloo": [50.0 * size]},
        }
        for size in (4, 1024, 1 << 20)
    ]
    + [
        {
            "part": "pytorch",
            "scenario": "MLP, batch 32",
            "figures": {"alone": [20e3], "ours": [31e3, 35e3], "gloo": [44e3]},
        }
    ],
}


def draw(folder, bench):
    source = folder / "bench.json"
    source.write_text(json.dumps(bench))
    command = [sys.executable, str(SCRIPT), str(source), str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def texts(path):
    return [each.text for each in ElementTree.parse(path).iter() if each.tag.endswith("text")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_plot_shows_the_best_figure_of_each_contender(tmp_path, theme):
    assert draw(tmp_path, BENCH).returncode == 0
    words = texts(tmp_path / "out" / f"benchmarks-{theme}.svg")
    for wanted in ("this project", "Open MPI", "PyTorch gloo", "MLP", "31 ms", "44 ms", "20 ms"):
        assert wanted in words
    assert "35 ms" not in words
    assert any("a processor, 2 cores" in each for each in words)


def test_a_faster_contender_has_the_lower_line(tmp_path):
    assert draw(tmp_path, BENCH).returncode == 0
    tree = ElementTree.parse(tmp_path / "out" / "benchmarks-light.svg")
    lines = [each.get("points") for each in tree.iter() if each.tag.endswith("polyline")]
    ours, openmpi, gloo = [[float(p.split(",")[1]) for p in line.split()] for line in lines]
    # y grows downwards.
    assert all(a > b > c for a, b, c in zip(ours, openmpi, gloo))


def test_a_missing_contender_is_left_out(tmp_path):
    bench = json.loads(json.dumps(BENCH))
    for line in bench["lines"]:
        line.get("us", {}).pop("gloo", None)
    assert draw(tmp_path, bench).returncode == 0
    assert "PyTorch gloo" not in texts(tmp_path / "out" / "benchmarks-light.svg")


def test_without_figures_it_says_what_to_do(tmp_path):
    done = draw(tmp_path, {"machine": "x", "lines": []})
    assert done.returncode == 1
    assert "run make bench" in done.stderr
