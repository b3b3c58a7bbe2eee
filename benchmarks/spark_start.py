# SPDX-License-Identifier: Apache-2.0
"""Startup time of horovod.spark.run and of Spark's TorchDistributor, until all ranks are connected.

spark_start.py RANKS ROUNDS

The contenders alternate in one Spark application that has one executor with one core per rank.
Prints one JSON object with the seconds from the call until the last rank is ready, one figure per
round: until `hvd.init()` of horovod.torch has returned, the same without a framework, and until
init_process_group of gloo has returned. The first round, in which Spark starts its Python workers,
does not count.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
import time
from typing import Callable

import horovod.spark
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession


def is_ready(folder: str) -> None:
    """Records when this rank became ready. All ranks are on this machine, with one clock."""
    pathlib.Path(folder, f"{os.getpid()}").write_text(repr(time.time()))


def with_torch(folder: str) -> None:
    import horovod.torch as hvd

    hvd.init()
    is_ready(folder)


def without_framework(folder: str) -> None:
    from horovod.common import basics

    basics.init()
    is_ready(folder)


def with_gloo(folder: str) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo")
    is_ready(folder)
    dist.destroy_process_group()


def seconds_of(start: Callable[[str], object], ranks: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        called = time.time()
        start(folder)
        times = [float(path.read_text()) for path in pathlib.Path(folder).iterdir()]
    if len(times) != ranks:
        raise RuntimeError(f"{len(times)} of {ranks} ranks were ready")
    return round(max(times) - called, 3)


def main(ranks: int, rounds: int) -> int:
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    session = (
        SparkSession.builder.master(f"local-cluster[{ranks},1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        .getOrCreate()
    )
    contenders: dict[str, Callable[[str], object]] = {
        "ours": lambda folder: horovod.spark.run(with_torch, (folder,), num_proc=ranks),
        "without a framework": lambda folder: horovod.spark.run(
            without_framework, (folder,), num_proc=ranks
        ),
        "TorchDistributor": lambda folder: TorchDistributor(
            num_processes=ranks, local_mode=False, use_gpu=False
        ).run(with_gloo, folder),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(1 + rounds):
        for name, start in contenders.items():
            times[name].append(seconds_of(start, ranks))
    counted = {name: figures[1:] for name, figures in times.items()}
    print(json.dumps({"ranks": ranks, **counted}), flush=True)
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
