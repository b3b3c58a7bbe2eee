# SPDX-License-Identifier: Apache-2.0
"""A Spark session for the tests of one module, which is skipped if Spark is not installed."""

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

# Options of every JVM that tests start. A JVM lives for seconds here, in which the second compiler
# and the threads of the default collector cost more than they gain.
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
)


@contextlib.contextmanager
def session(master: str, settings: dict[str, str]) -> Iterator[Any]:
    """A session with a JVM of its own.

    PySpark keeps its JVM for the next session of a process, and the settings of the first session
    are defaults of all later ones.
    """
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        # Time for a cancelled task to clean up; the default is 2 s.
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
