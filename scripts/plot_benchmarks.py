# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of `make bench` as two SVG files, for light and for dark pages.

plot_benchmarks.py BENCH_JSON FOLDER

The left panel shows the time of a float32 Sum allreduce between 2 ranks on one host, for each size:
ours beside Open MPI and gloo. The right panel shows training steps with PyTorch on 2 ranks: ours
beside DistributedDataParallel and beside one rank alone. Every figure is the best of all rounds.

The files are written by hand, without a plotting library: they stay small, and a change of a figure
is a small change of text.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import re
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 920, 400
TOP, BOTTOM = 78, 344  # of both panels, in pixels
LEFT, LEFT_END = 64, 430  # x range of the left panel
RIGHT, RIGHT_END = 560, 850  # x range of the bars in the right panel
LABEL_WIDTH = 52  # of the longest label on the x axis, with a gap
FONT = "font-family='system-ui, -apple-system, Segoe UI, sans-serif'"
LABELS = {"ours": "this project", "openmpi": "Open MPI", "gloo": "PyTorch gloo"}
STEP_LABELS = {"alone": "one rank alone", "ours": "this project", "gloo": "PyTorch DDP (gloo)"}


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours of one file."""

    name: str
    text: str
    muted: str
    grid: str
    colours: dict[str, str]


THEMES = (
    Theme(
        "light",
        "#1f2328",
        "#59636e",
        "#d1d9e0",
        {"ours": "#0969da", "openmpi": "#bc4c00", "gloo": "#8250df", "alone": "#818b98"},
    ),
    Theme(
        "dark",
        "#f0f6fc",
        "#9198a1",
        "#3d444d",
        {"ours": "#4493f8", "openmpi": "#f0883e", "gloo": "#ab7df8", "alone": "#656c76"},
    ),
)


def size_text(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(us: float) -> str:
    """Microseconds with two significant digits, in the unit that reads best."""
    value, unit = (us / 1000, "ms") if us >= 1000 else (us, "µs")
    digits = max(0, 1 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{digits}f} {unit}"


def allreduce_figures(bench: dict) -> dict[str, dict[int, float]]:
    """By contender: the best time in microseconds for each size in bytes, 2 ranks on one host."""
    best: dict[str, dict[int, float]] = {}
    for line in bench["lines"]:
        if line["part"] != "one host" or line["ranks"] != 2:
            continue
        for contender in LABELS:
            if line["us"].get(contender):
                best.setdefault(contender, {})[line["bytes"]] = min(line["us"][contender])
    return best


def step_figures(bench: dict) -> dict[str, dict[str, float]]:
    """By model: the best time of a training step in microseconds for each contender."""
    best = {}
    for line in bench["lines"]:
        if line["part"] == "pytorch" and "alone" in line["figures"]:
            name = line["scenario"].split(",")[0]
            best[name] = {who: min(times) for who, times in line["figures"].items()}
    return best


class Drawing:
    """SVG elements in the order in which they are drawn, and the colours they use."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, words: str, colour: str, size: int = 12, anchor: str = "start"
    ) -> None:
        self.parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' fill='{colour}' font-size='{size}' {FONT} "
            f"text-anchor='{anchor}'>{escape(words)}</text>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(
            f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' "
            f"stroke='{self.theme.grid}' stroke-width='1'/>"
        )

    def svg(self, title: str) -> str:
        body = "\n".join(self.parts)
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
            f"width='{WIDTH}' height='{HEIGHT}' role='img'>\n<title>{escape(title)}</title>\n"
            f"{body}\n</svg>\n"
        )


def spread(positions: list[float], gap: float) -> list[float]:
    """The same positions, in their order, moved apart to at least `gap`."""
    order = sorted(range(len(positions)), key=positions.__getitem__)
    moved = list(positions)
    for before, after in zip(order, order[1:]):
        moved[after] = max(moved[after], moved[before] + gap)
    return moved


def draw_allreduce(drawing: Drawing, best: dict[str, dict[int, float]]) -> None:
    theme = drawing.theme
    sizes = sorted({size for by_size in best.values() for size in by_size})
    times = [us for by_size in best.values() for us in by_size.values()]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x_of(size: int) -> float:
        share = math.log2(size / sizes[0]) / max(1.0, math.log2(sizes[-1] / sizes[0]))
        return LEFT + share * (LEFT_END - LEFT)

    def y_of(us: float) -> float:
        return BOTTOM - (math.log10(us) - low) / (high - low) * (BOTTOM - TOP)

    for power in range(low, high + 1):
        drawing.line(LEFT, y_of(10**power), LEFT_END, y_of(10**power))
        unit = f"{10 ** (power - 3):g} ms" if power >= 3 else f"{10**power:g} µs"
        drawing.text(LEFT - 8, y_of(10**power) + 4, unit, theme.muted, 11, "end")
    labelled = -math.inf
    for size in sizes:
        if x_of(size) - labelled >= LABEL_WIDTH:
            labelled = x_of(size)
            drawing.text(labelled, BOTTOM + 18, size_text(size), theme.muted, 11, "middle")
    drawing.text(LEFT, 34, "Allreduce, 2 ranks on one host", theme.text, 15)
    drawing.text(LEFT, 54, "time by size, both axes logarithmic; lower is better", theme.muted)
    ends = []
    for contender, by_size in best.items():
        points = " ".join(f"{x_of(s):.1f},{y_of(us):.1f}" for s, us in sorted(by_size.items()))
        width = 3 if contender == "ours" else 2
        drawing.parts.append(
            f"<polyline points='{points}' fill='none' stroke='{theme.colours[contender]}' "
            f"stroke-width='{width}' stroke-linejoin='round'/>"
        )
        ends.append(y_of(by_size[max(by_size)]) + 4)
    for (contender, _), y in zip(best.items(), spread(ends, 15)):
        drawing.text(LEFT_END + 6, y, LABELS[contender], theme.colours[contender], 12)


def draw_steps(drawing: Drawing, best: dict[str, dict[str, float]]) -> None:
    theme = drawing.theme
    drawing.text(RIGHT, 34, "Training step with PyTorch, 2 ranks", theme.text, 15)
    drawing.text(RIGHT, 54, "time of one step; shorter is better", theme.muted)
    longest = max(us for times in best.values() for us in times.values())
    bar, gap = 20, 6
    y = float(TOP + 4)
    for model, times in best.items():
        drawing.text(RIGHT, y + 12, model, theme.text, 12)
        y += 20
        for contender in ("alone", "ours", "gloo"):
            if contender not in times:
                continue
            length = times[contender] / longest * (RIGHT_END - RIGHT)
            drawing.parts.append(
                f"<rect x='{RIGHT}' y='{y:.1f}' width='{length:.1f}' height='{bar}' rx='3' "
                f"fill='{theme.colours[contender]}'/>"
            )
            drawing.text(RIGHT + length + 6, y + 14, time_text(times[contender]), theme.text, 12)
            drawing.text(RIGHT + 8, y + 14, STEP_LABELS[contender], "#ffffff", 11)
            y += bar + gap
        y += 14


def draw(bench: dict, theme: Theme) -> str:
    drawing = Drawing(theme)
    allreduce, steps = allreduce_figures(bench), step_figures(bench)
    if allreduce:
        draw_allreduce(drawing, allreduce)
    if steps:
        draw_steps(drawing, steps)
    machine = re.sub(r"(Linux \d+\.\d+)\S*", r"\1", bench["machine"])
    drawing.text(LEFT, HEIGHT - 10, f"make bench, best of all rounds, {machine}", theme.muted, 11)
    return drawing.svg("Time of an allreduce and of a training step, this project beside its peers")


def main(source: str, folder: str) -> int:
    bench = json.loads(pathlib.Path(source).read_text())
    if not allreduce_figures(bench) and not step_figures(bench):
        print(f"{source} has no figures to draw: run make bench", file=sys.stderr)
        return 1
    target = pathlib.Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for theme in THEMES:
        path = target / f"benchmarks-{theme.name}.svg"
        path.write_text(draw(bench, theme))
        print(f"drawn: {path}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
