# SPDX-License-Identifier: Apache-2.0
"""A session of Spark for the tests of one module, which is skipped where there is no Spark."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

_SPARK = importlib.util.find_spec("pyspark")
if _SPARK is None:
    pytest.skip("pyspark is not installed", allow_module_level=True)
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)

HOME = pathlib.Path(_SPARK.origin).parent

# Of every JVM that tests start: they live for seconds, in which the second compiler and the threads
# of the default collector cost more than they bring.
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
)


@contextlib.contextmanager
def session(master: str, settings: dict[str, str]) -> Iterator[Any]:
    """A session with a JVM of its own.

    PySpark keeps its JVM for the next session of a process, and what was given as a setting to the
    first of them is the default of all others.
    """
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        # Of a cancelled task; the default of 2 s is for tasks that have something to tidy up.
        .config("spark.python.task.killTimeout", "200ms")
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    )
    spark = builder.config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
        _end_jvm(pyspark.SparkContext)


def _end_jvm(context: Any) -> None:
    gateway = context._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # ends it
        gateway.proc.wait(timeout=60)
        context._gateway = context._jvm = None
