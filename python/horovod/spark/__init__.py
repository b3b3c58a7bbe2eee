"""Horovod on Spark: `horovod.spark.run(train, args=(…), num_proc=4)`."""

from __future__ import annotations

from horovod.spark.runner import run

__all__ = ["run"]
