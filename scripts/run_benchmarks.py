# SPDX-License-Identifier: Apache-2.0
"""Measures a release build beside its peers and prints one table, each line with its target.

run_benchmarks.py BUILD [--python PYTHON] [--quick] [--results FOLDER]

Times are microseconds per operation unless said otherwise. Contenders take turns, because a
virtual machine changes its speed within seconds; `best` over all rounds is what targets are held
against. gloo comes from the torch of PYTHON, and so does the front end: the wheel has to be
installed there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

import bench_network
import netns

ROOT = pathlib.Path(__file__).resolve().parent.parent
KIB, MIB = 1 << 10, 1 << 20
SIZES = [4, 64, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 8 * MIB, 64 * MIB]
STARTUP_LIMIT_MS = 1000
# Four ranks on two cores cannot keep to it. Between namespaces a message costs 7.0 us of CPU time
# (send and recv), as much as its latency: the eight messages of a recursive doubling alone keep two
# cores busy for four latencies. A rank that waits for one on its own core looks at its socket 20
# times, at 0.38 us, before it yields: up to one more latency in each of the two rounds.
LATENCIES_PER_ROUND = 1.5
MESSAGES_PER_LOG2 = 5


class Report:
    """Prints lines as they come and keeps their figures in bench.json, whole after each."""

    def __init__(self, folder: pathlib.Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "bench.json"
        self.machine = machine()
        self.rows: list[dict] = []
        self.say(self.machine)

    def say(self, text: str = "") -> None:
        print(text, flush=True)

    def title(self, text: str) -> None:
        self.say(f"\n{text} (load average {os.getloadavg()[0]:.1f})")

    def keep(self, part: str, **figures) -> None:
        self.rows.append({"part": part, "load": os.getloadavg()[0], **figures})
        text = json.dumps({"machine": self.machine, "lines": self.rows}, indent=1)
        unfinished = self.file.with_suffix(".part")
        unfinished.write_text(text + "\n")
        unfinished.replace(self.file)


def verdict(met: bool) -> str:
    return "ok" if met else "MISSED"


def size_name(size: int) -> str:
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def machine() -> str:
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores, {platform.system()} {platform.release()}"


def json_lines(command: list[str]) -> list[dict]:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


# ---- One host ------------------------------------------------------------------------------------


def usable(python: str | None, module: str) -> bool:
    if python is None:
        return False
    try:
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def targets(size: int, ranks: int) -> tuple[float, float]:
    """The largest ratio to the time of Open MPI and to that of gloo."""
    if size <= KIB:
        return 0.8, 0.01
    if size <= 8 * MIB:
        return 0.5, 0.1
    return (0.3 if ranks == 2 else 0.25), 0.2


def mpirun(ranks: int) -> list[str]:
    # Unbound, as processes of a training job are; four ranks on two cores need it anyway.
    command = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none"]
    return [*command, "--allow-run-as-root"] if os.geteuid() == 0 else command


def compare_on_one_host(
    build: pathlib.Path, ranks: int, alternations: int, rounds: int, python: str | None
) -> dict[int, dict[str, list[float]]]:
    """By size and contender: one figure for each round of all alternations."""
    sizes = [str(size) for size in SIZES]
    program = str(build / "bench" / "allreduce_peers")
    commands = [[*mpirun(ranks), program, str(rounds), *sizes]]
    if python is not None:
        gloo = str(ROOT / "benchmarks" / "gloo_allreduce.py")
        commands.append([python, gloo, str(ranks), str(rounds), *sizes])
    times: dict[int, dict[str, list[float]]] = {size: {} for size in SIZES}
    for _ in range(alternations):
        for command in commands:
            for line in json_lines(command):
                for contender, figures in line.items():
                    if contender not in ("ranks", "bytes"):
                        times[line["bytes"]].setdefault(contender, []).extend(figures)
    return times


ONE_HOST_HEAD = (
    f"{'size':>8} {'ranks':>5} | {'Open MPI best':>13} {'median':>9} | {'ours best':>9}"
    f" {'median':>9} {'shared':>9} | {'gloo best':>9} | {'/Open MPI':>9} {'median':>6}"
    f" {'target':>6} | {'/gloo':>6} {'target':>6} | probe ns"
)


def one_host_line(report: Report, size: int, ranks: int, times: dict[str, list[float]]) -> None:
    best = {contender: min(figures) for contender, figures in times.items() if figures}
    median = {name: statistics.median(figures) for name, figures in times.items() if figures}
    to_mpi, to_gloo = targets(size, ranks)
    ratio = best["ours"] / best["openmpi"]
    met = ratio <= to_mpi
    gloo = f"{'-':>9}"
    gloo_ratio = f"{'-':>6}"
    if "gloo" in best:
        met = met and best["ours"] / best["gloo"] <= to_gloo
        gloo = f"{best['gloo']:9.1f}"
        gloo_ratio = f"{best['ours'] / best['gloo']:6.4f}"
    probe = times.get("probe_ns") or [0]
    probed = f"{min(probe):.0f}..{max(probe):.0f}" if max(probe) > 0 else "-"
    report.say(
        f"{size_name(size):>8} {ranks:5} | {best['openmpi']:13.2f} {median['openmpi']:9.2f} |"
        f" {best['ours']:9.2f} {median['ours']:9.2f} {best['shared']:9.2f} | {gloo} |"
        f" {ratio:9.2f} {median['ours'] / median['openmpi']:6.2f} {to_mpi:6.2f} |"
        f" {gloo_ratio} {to_gloo:6.2f} | {probed:>9}  {verdict(met)}"
    )
    report.keep("one host", ranks=ranks, bytes=size, us=times, met=met)


def one_host(
    report: Report, build: pathlib.Path, alternations: int, rounds: int, python: str | None
) -> None:
    for ranks in (2, 4):
        times = compare_on_one_host(build, ranks, alternations, rounds, python)
        report.title(f"float32 Sum allreduce, {ranks} ranks on this host, us")
        report.say(ONE_HOST_HEAD)
        for size in SIZES:
            one_host_line(report, size, ranks, times[size])


# ---- Training steps ------------------------------------------------------------------------------


def training_steps(
    report: Report, build: pathlib.Path, alternations: int, rounds: int, python: str | None
) -> None:
    """Through hvd.h: from submission to completion, as a front end sees it."""
    program = build / "bench" / "engine_peers"
    if not program.exists():
        report.say("\nTraining steps skipped: this build has no engine_peers")
        return
    for ranks in (2, 4):
        commands = [[*mpirun(ranks), str(program), str(rounds)]]
        if python is not None:
            gloo = str(ROOT / "benchmarks" / "gloo_allreduce.py")
            commands.append([python, gloo, str(ranks), str(rounds), "steps"])
        times: dict[str, dict[str, list[float]]] = {}
        for _ in range(alternations):
            for line in [line for command in commands for line in json_lines(command)]:
                columns = times.setdefault(line.pop("scenario"), {})
                line.pop("ranks")
                for contender, figures in line.items():
                    columns.setdefault(contender, []).extend(figures)
        report.title(f"Training steps through hvd.h, {ranks} ranks on this host")
        for scenario, columns in times.items():
            step_line(report, scenario, ranks, columns)


def step_line(report: Report, scenario: str, ranks: int, times: dict[str, list[float]]) -> None:
    best = {name: min(figures) for name, figures in times.items() if figures}
    median = {name: statistics.median(figures) for name, figures in times.items() if figures}
    facts, met = step_targets(scenario, ranks, best, median)
    shown = ", ".join(f"{name} {median[name]:.4g} (best {best[name]:.4g})" for name in best)
    unit = "%" if scenario == "idle" else "us"
    report.say(f"{scenario}, {unit}: {shown}; {facts}  {verdict(met)}")
    report.keep("steps", scenario=scenario, ranks=ranks, figures=times, met=met)


def step_targets(
    scenario: str, ranks: int, best: dict[str, float], median: dict[str, float]
) -> tuple[str, bool]:
    """What the line is held against, in words, and whether it holds."""
    if scenario == "idle":
        return "target < 0.2", best["percent"] < 0.2
    if scenario == "4 B":
        limit = 3 if ranks == 2 else 15
        return f"target: median <= {limit}", median["ours"] <= limit
    traced = best["with timeline"] / best["ours"] if "with timeline" in best else 1.0
    facts = f"timeline costs {100 * (traced - 1):.1f} % (target <= 2)"
    met = traced <= 1.02
    if scenario == "ResNet-50":
        to_whole = best["ours"] / best["one tensor"]
        facts += f", {to_whole:.2f} of one tensor (target <= 1.25)"
        met = met and to_whole <= 1.25
        if "gloo" in best:
            to_gloo = best["ours"] / best["gloo"]
            facts += f", {to_gloo:.3f} of gloo (target <= 0.125)"
            met = met and to_gloo <= 0.125
    elif ranks == 2:
        facts += ", target <= 800"
        met = met and best["ours"] <= 800
    return facts, met


def pytorch_steps(report: Report, rounds: int, python: str | None) -> None:
    """The same from a Python program, beside PyTorch's own way."""
    report.title("Training steps with PyTorch, 2 ranks on this host, us")
    if python is None or not usable(python, "horovod.torch"):
        report.say("skipped: there is no Python with PyTorch and the wheel; see --python")
        return
    program = str(ROOT / "benchmarks" / "torch_steps.py")
    for line in json_lines([python, program, "2", str(rounds)]):
        scenario = line.pop("scenario")
        line.pop("ranks")
        best = {name: min(figures) for name, figures in line.items()}
        if "alone" in best:
            ratio = best["gloo"] / best["ours"]
            cost = 100 * (best["ours"] / best["alone"] - 1)
            facts = f"{ratio:.2f} of DistributedDataParallel's throughput (target >= 1.1), "
            facts += f"communication adds {cost:.0f} %"
            met = ratio >= 1.1
        elif scenario.startswith("4 B"):
            facts, met = "target <= 8", best["ours"] <= 8
        else:
            ratio = best["gloo"] / best["ours"]
            facts = f"1/{ratio:.0f} of gloo (target 1/200), target <= 2500"
            met = best["ours"] <= 2500 and ratio >= 200
        shown = ", ".join(
            f"{name} {statistics.median(line[name]):.4g} (best {best[name]:.4g})" for name in best
        )
        report.say(f"{scenario}: {shown}; {facts}  {verdict(met)}")
        report.keep("pytorch", scenario=scenario, figures=line, met=met)


def tensorflow_steps(report: Report, rounds: int, python: str | None) -> None:
    report.title("Training steps with TensorFlow, us")
    if python is None or not usable(python, "horovod.tensorflow"):
        report.say("skipped: there is no Python with TensorFlow and the wheel; see --python")
        return
    program = str(ROOT / "benchmarks" / "tensorflow_steps.py")
    for line in json_lines([python, program, "2", str(rounds)]):
        scenario, _ = line.pop("scenario"), line.pop("ranks")
        best = {name: min(figures) for name, figures in line.items()}
        if "alone" in best:
            cost = 100 * (best["ours"] / best["alone"] - 1)
            facts, met = f"distribution costs {cost:.1f} % (target <= 5)", cost <= 5
        else:
            facts, met = "each, target <= 50", best["ours"] <= 50
        shown = ", ".join(
            f"{name} {statistics.median(line[name]):.4g} (best {best[name]:.4g})" for name in best
        )
        report.say(f"{scenario}: {shown}; {facts}  {verdict(met)}")
        report.keep("tensorflow", scenario=scenario, figures=line, met=met)


# ---- Several hosts -------------------------------------------------------------------------------


def network(report: Report, build: pathlib.Path, rounds: int) -> None:
    report.title("float32 Sum allreduce over TCP, one rank per network namespace")
    if missing := netns.why_not():
        report.say(f"skipped: {missing}")
        return
    try:
        for ranks, mbit, target in ((2, 1000, 94), (4, 1000, 94), (2, 10000, 90)):
            bandwidth_line(report, build, ranks, mbit, target, rounds)
        for ranks in (2, 4):
            latency_line(report, build, ranks, max(rounds, 7))
        protection_lines(report, build, max(rounds, 7))
    except OSError as error:
        report.say(f"skipped: {error}")


def bandwidth_line(
    report: Report, build: pathlib.Path, ranks: int, mbit: int, target: int, rounds: int
) -> None:
    size = 64 * MIB
    result = bench_network.measure(build, ranks, size, rounds, mbit)[0]
    bound = 2 * (ranks - 1) / ranks * size * 8 / mbit
    best, median = (100 * bound / f(result["us"]) for f in (min, statistics.median))
    report.say(
        f"64 MiB, {ranks} ranks, {mbit / 1000:g} Gbit/s: {best:.1f} % of the bound, median"
        f" {median:.1f} % ({result['chosen']}), target {target} %  {verdict(best >= target)}"
    )
    report.keep("bandwidth", mbit=mbit, share=best, met=best >= target, **result)


def latency_line(report: Report, build: pathlib.Path, ranks: int, rounds: int) -> None:
    result = bench_network.measure(build, ranks, 4, rounds)[0]
    limit = LATENCIES_PER_ROUND * (ranks.bit_length() - 1)
    best, median = (f(result["us"]) / f(result["latency_us"]) for f in (min, statistics.median))
    report.say(
        f"4 B, {ranks} ranks: {min(result['us']):.1f} us = {best:.2f} one-way latencies of"
        f" {min(result['latency_us']):.1f} us, median {median:.2f} ({result['chosen']}),"
        f" target {limit:g}  {verdict(best <= limit)}"
    )
    report.keep("latency", latencies=best, met=best <= limit, **result)


# What HOROVOD_WIRE_PROTECTION=tags may cost to be the default.
PROTECTED_STEP_LIMIT = 1.10


def protection_lines(report: Report, build: pathlib.Path, rounds: int) -> None:
    kinds = ("none", "tags", "tls")
    results = bench_network.measure(
        build, 2, 64 * MIB, rounds, 10000, tuple(f"auto:{kind}" for kind in kinds)
    )
    protection_line(report, "64 MiB", {r["wire"]: [us / 1000 for us in r["us"]] for r in results})
    for how in ("sleep", "spin"):
        steps = bench_network.measure_steps(build, 2, rounds, 10000, 100, how, kinds)
        times = {result["kind"]: result["step_ms"] for result in steps}
        protection_line(report, f"step with 100 ms of computing ({how})", times)


def protection_line(report: Report, what: str, times: dict[str, list[float]]) -> None:
    best = {kind: min(figures) for kind, figures in times.items()}
    met = best["tags"] <= PROTECTED_STEP_LIMIT * best["none"] or not what.startswith("step")
    shown = ", ".join(f"{kind} {ms:.1f} ms ({ms / best['none']:.2f})" for kind, ms in best.items())
    report.say(
        f"{what}, 2 ranks, 10 Gbit/s: {shown}; a step with tags <= {PROTECTED_STEP_LIMIT}"
        f"  {verdict(met)}"
    )
    report.keep("protection", what=what, ms=times, met=met)


# ---- The rest ------------------------------------------------------------------------------------


def startup(report: Report, build: pathlib.Path, rounds: int) -> None:
    report.title("Start: from the fork of 64 processes until all are connected")
    for hosts in (1, 4):
        program = str(build / "bench" / "startup")
        result = json_lines([program, "64", str(hosts), str(rounds)])[0]
        times = result["connected_ms"]
        steps = ", ".join(
            f"{name[:-3]} {statistics.median(figures):.0f}"
            for name, figures in result.items()
            if name.endswith("_ms") and name != "connected_ms"
        )
        met = min(times) < STARTUP_LIMIT_MS
        report.say(
            f"{hosts} host(s): best {min(times):.0f} ms, median {statistics.median(times):.0f} ms"
            f" (slowest rank, median: {steps}), target < {STARTUP_LIMIT_MS}  {verdict(met)}"
        )
        report.keep("startup", met=met, **result)


def spark_start(report: Report, rounds: int, python: str | None) -> None:
    report.title("Start on Spark: from the call until 2 ranks can talk to each other, s")
    has_java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    needed = "horovod.torch, pyspark.ml.torch.distributor, pandas, pyarrow"
    if python is None or not has_java or not usable(python, needed):
        report.say("skipped: there is no Java, or no Python with PyTorch, Spark and the wheel")
        return
    program = str(ROOT / "benchmarks" / "spark_start.py")
    (line,) = json_lines([python, program, "2", str(rounds)])
    line.pop("ranks")
    best = {name: min(figures) for name, figures in line.items()}
    ratio = best["ours"] / best["TorchDistributor"]
    shown = ", ".join(
        f"{name} {statistics.median(line[name]):.2f} (best {best[name]:.2f})" for name in best
    )
    met = ratio <= 0.5
    report.say(f"{shown}; {ratio:.2f} of TorchDistributor (target <= 0.5)  {verdict(met)}")
    report.keep("spark start", s=line, met=met)


def sealed_objects(report: Report, rounds: int, python: str | None) -> None:
    report.title("broadcast_object between 2 ranks on this host, with and without seals, us")
    if python is None or not usable(python, "horovod.common.objects"):
        report.say("skipped: there is no Python with the wheel; see --python")
        return
    for line in json_lines([python, str(ROOT / "benchmarks" / "objects.py"), str(rounds)]):
        size = line.pop("size")
        shown = []
        for what in ("wall", "cpu"):
            sealed, without = min(line["sealed"][what]), min(line["without"][what])
            shown.append(f"{what} {sealed:.4g}, without {without:.4g}: {sealed / without:.2f}")
        report.say(f"{size}: {'; '.join(shown)} times")
        report.keep("sealed objects", size=size, figures=line, met=True)


def launcher(report: Report, build: pathlib.Path, rounds: int) -> None:
    report.title("horovodrun: from its start to its end, with nothing to do for the ranks")
    barrier = str(build / "bench" / "init_barrier")
    for ranks, command, limit in ((2, "true", 60), (64, "true", 1000), (64, barrier, 2000)):
        times = []
        for _ in range(rounds):
            start = time.monotonic()
            subprocess.run(
                [str(build / "launcher" / "horovodrun"), "-np", str(ranks), command],
                check=True,
                timeout=60,
            )
            times.append(1000 * (time.monotonic() - start))
        name = f"-np {ranks} {pathlib.Path(command).name}"
        met = min(times) <= limit
        report.say(
            f"{name}: best {min(times):.0f} ms, median {statistics.median(times):.0f} ms,"
            f" target {limit}  {verdict(met)}"
        )
        report.keep("launcher", command=name, ms=times, met=met)


def control_plane(report: Report, build: pathlib.Path) -> None:
    report.title("Control plane, simulated: one rank's messages in an unchanged step, in and out")
    report.say(
        f"{'ranks':>5} {'per host':>8} | {'most':>4} {'mean':>5} | {'most B':>6} {'mean B':>6} |"
        f" {'hops':>4} | {'/log2(ranks)':>12} {'target':>6}"
    )
    for line in json_lines([str(build / "bench" / "control_plane")]):
        (most, mean), (most_bytes, mean_bytes) = line["messages"], line["bytes"]
        share = most / math.log2(line["ranks"])
        met = share <= MESSAGES_PER_LOG2
        report.say(
            f"{line['ranks']:5} {line['per_host']:8} | {most:4} {mean:5.2f} | {most_bytes:6}"
            f" {mean_bytes:6.1f} | {line['hops']:4} | {share:12.2f} {MESSAGES_PER_LOG2:6}"
            f"  {verdict(met)}"
        )
        report.keep("control plane", share=share, met=met, **line)


# GB/s of one operand in the first-level cache.
KERNEL_TARGETS = {"float16": 20.0, "bfloat16": 12.0}


def kernels(report: Report, build: pathlib.Path, repetitions: int) -> None:
    program = build / "bench" / "kernels_bench"
    report.title("Sum kernels on one core, GB/s of one operand, best")
    if not program.exists():
        report.say("skipped: this build has no kernels_bench")
        return
    command = [
        *(str(program), "--benchmark_filter=^sum/.*inputs:2(/|$)", "--benchmark_format=json"),
        f"--benchmark_repetitions={repetitions}",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    rates: dict[str, dict[int, float]] = {}
    for each in json.loads(done.stdout)["benchmarks"]:
        if each.get("run_type") == "aggregate":
            continue
        _, dtype, size = each["name"].split("/")[:3]
        by_size = rates.setdefault(dtype, {})
        size = int(size.removeprefix("bytes:"))
        by_size[size] = max(by_size.get(size, 0), each["GB/s"])
    for dtype, by_size in rates.items():
        target = KERNEL_TARGETS.get(dtype)
        met = target is None or by_size[16 * KIB] >= target
        shown = ", ".join(f"{size_name(size)} {rate:.1f}" for size, rate in sorted(by_size.items()))
        tail = "" if target is None else f", target {target:g} at 16 KiB  {verdict(met)}"
        report.say(f"{dtype:>8}: {shown}{tail}")
        report.keep("kernels", dtype=dtype, gb_per_s=by_size, met=met)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--python", help="an interpreter with PyTorch and the wheel")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "results")
    given = parser.parse_args()
    report = Report(given.results)
    python = given.python if usable(given.python, "torch") else None
    if python is None:
        report.say("no gloo to compare with: there is no Python with PyTorch; see --python")
    one_host(report, given.build, 3, 1 if given.quick else 3, python)
    training_steps(report, given.build, 3, 1 if given.quick else 3, python)
    pytorch_steps(report, 3 if given.quick else 7, python)
    tensorflow_steps(report, 3 if given.quick else 7, python)
    sealed_objects(report, 3 if given.quick else 7, python)
    network(report, given.build, 3 if given.quick else 7)
    startup(report, given.build, 3 if given.quick else 7)
    spark_start(report, 2 if given.quick else 5, python)
    launcher(report, given.build, 3 if given.quick else 7)
    control_plane(report, given.build)
    kernels(report, given.build, 2 if given.quick else 5)
    missed = sum(not row["met"] for row in report.rows)
    report.say(f"\n{len(report.rows)} lines, {missed} missed their target")
    return 0


if __name__ == "__main__":
    sys.exit(main())
