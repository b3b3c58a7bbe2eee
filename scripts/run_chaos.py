# SPDX-License-Identifier: Apache-2.0
"""Disturbs jobs for some time and checks every result.

    run_chaos.py BUILD [--seconds N] [--seed N] [--cell N] [--only KIND...] [--jobs N]

A seed determines a list of cells: number of ranks, one or two settings, a disturbance and its time.
Several cells run at the same time until the seconds are over. `--cell N` runs only that cell and
prints the output of its ranks; `--only kill relay` runs only these disturbances. The exit code is 1
if any result is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import sys
import threading
import time

import dispositions
from chaos import cells, run, settings


class Table:
    """The outcomes so far. Any thread may add one."""

    def __init__(self, seed: int, build: pathlib.Path):
        self.seed = seed
        self.build = build
        self.outcomes: list[run.Outcome] = []
        self.lock = threading.Lock()

    def add(self, outcome: run.Outcome) -> None:
        with self.lock:
            self.outcomes.append(outcome)
            if not outcome.problems:
                return
            print(f"FAILED {outcome.cell}")
            for column, what in outcome.problems:
                print(f"  {column}: {what}")
            print("  repeat: " + self.command(outcome.cell))
            print("  " + outcome.output.replace("\n", "\n  "), flush=True)

    def command(self, cell: cells.Cell) -> str:
        return f"make chaos CHAOS_SEED={self.seed} CHAOS_CELL={cell.number}"

    def failed(self) -> bool:
        return any(outcome.problems for outcome in self.outcomes)

    def show(self, seconds: float) -> None:
        heads = ("tried", "1 rank", "2", "4", "disturbed", *run.COLUMNS)
        last = "changed on an unprotected wire"
        print(f"\n{'disturbance':<28}" + "".join(f"{head:>12}" for head in (*heads, last[:7])))
        skipped = {}
        for kind, meaning in cells.KINDS.items():
            tried = [each for each in self.outcomes if each.cell.kind == kind]
            for each in tried:
                if each.skipped:
                    skipped[kind] = each.skipped
            tried = [each for each in tried if not each.skipped]
            row = [len(tried)]
            row += [sum(each.cell.ranks == ranks for each in tried) for ranks in cells.RANKS]
            row += [0 if kind == "nothing" else sum(each.disturbed for each in tried)]
            for column in run.COLUMNS:
                row.append(sum(any(c == column for c, _ in each.problems) for each in tried))
            row.append(sum(each.changed for each in tried))
            print(f"{meaning:<28}" + "".join(f"{number:>12}" for number in row))
        for kind, why in skipped.items():
            print(f"not tried: {cells.KINDS[kind]}: {why}")
        drawn = {name for each in self.outcomes for name, _ in each.cell.drawn}
        known = [setting for setting in settings.ALL if setting.running]
        bad = [each for each in self.outcomes if each.problems]
        slowest = max((each.seconds for each in self.outcomes), default=0)
        print(
            f'("changed": {last}: no failure.) {len(self.outcomes)} cells of seed {self.seed} in '
            f"{seconds:.0f} s, slowest {slowest:.1f} s; {len(drawn)} of {len(known)} settings; "
            f"{len(bad)} failed"
        )
        for each in bad:
            print(f"  {self.command(each.cell)}  # {each.cell}: {each.problems[0][0]}")


def run_for(runner: run.Runner, table: Table, options: argparse.Namespace) -> None:
    until = time.monotonic() + options.seconds
    following = (cell for cell in cells.cells(table.seed) if cell.kind in options.only)
    lock = threading.Lock()

    def work() -> None:
        # A cell takes some seconds and must end before the limit.
        while time.monotonic() < until - 5:
            with lock:
                cell = next(following)
            table.add(runner.run(cell))

    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cell", type=int)
    parser.add_argument("--only", nargs="+", choices=cells.KINDS, default=list(cells.KINDS))
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1)
    options = parser.parse_args()
    dispositions.give_children_the_defaults()
    table = Table(options.seed, options.build)
    runner = run.Runner(options.build.resolve())
    began = time.monotonic()
    if options.cell is not None:
        cell = next(itertools.islice(cells.cells(options.seed), options.cell, None))
        print(f"{cell}\n  settings {cell.environment}\n  arguments {cell.arguments}")
        outcome = runner.run(cell)
        if not outcome.problems:
            print(outcome.output)
        table.add(outcome)
    else:
        run_for(runner, table, options)
    table.show(time.monotonic() - began)
    return 1 if table.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
