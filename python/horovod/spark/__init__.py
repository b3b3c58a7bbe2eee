# SPDX-License-Identifier: Apache-2.0
"""Horovod on Spark: `horovod.spark.run(train, args=(…), num_proc=4)`."""

from __future__ import annotations

from typing import Any

from horovod.spark.horovod_runner import HorovodRunner
from horovod.spark.runner import run

__all__ = ["HorovodRunner", "run", "run_elastic"]


def run_elastic(*_: Any, **__: Any) -> list[Any]:
    """Not available yet: it needs elastic training, which is missing.

    Raises RuntimeError.
    """
    raise RuntimeError("horovod.spark.run_elastic is not available yet; use horovod.spark.run")
