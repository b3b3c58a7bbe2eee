# SPDX-License-Identifier: Apache-2.0
"""horovod.spark.run through Spark Connect, with a real server."""

import contextlib
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest
import spark_session

if importlib.util.find_spec("grpc_status") is None:
    pytest.skip("what Spark Connect needs is not installed", allow_module_level=True)

pytestmark = pytest.mark.timeout(300)

CLIENT = """
import io, sys
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
import horovod.spark

horovod.spark.runner.END_SECONDS = 1.0  # for a rank that does not end by itself
SparkSession.builder.remote(sys.argv[1]).getOrCreate()


def train(factor):
    from horovod.common import basics
    basics.init()
    print("a line", flush=True)
    return factor * basics.rank(), basics.size()


out = io.StringIO()
print(horovod.spark.run(train, args=(5,), num_proc=2, stdout=out), sorted(out.getvalue().split()))
try:
    horovod.spark.run(train, args=(5,))
except ValueError as error:
    print(error)


def fails_on_one():
    import os, time
    if os.environ["HOROVOD_RANK"] == "1":
        raise KeyError("the cause")
    time.sleep(300)


try:
    horovod.spark.run(fails_on_one, num_proc=2)
except RuntimeError as error:
    print(str(error).splitlines()[0], repr(error.__cause__))
# Nothing remains of aborted runs that could disturb the next one.
try:
    horovod.spark.run(train, args=(5,), num_proc=3, start_timeout=2)
except RuntimeError as error:
    print(error)
# The active session belongs to one thread.
with ThreadPoolExecutor() as pool:
    print(pool.submit(horovod.spark.run, train, args=(6,), num_proc=2).result())
"""


@contextlib.contextmanager
def server(folder: pathlib.Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                f"{spark_session.HOME}/bin/spark-submit",
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *("--master", "local[2]", "--conf", "spark.ui.enabled=false"),
                *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
                *("--conf", f"spark.connect.grpc.binding.port={port}"),
                "spark-internal",
            ],
            cwd=folder,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + 120
        while "Spark Connect server started" not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def test_a_client_of_spark_connect_runs_on_its_executors(tmp_path):
    with server(tmp_path) as url:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, url],
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
    lines = done.stdout.splitlines()
    assert len(lines) == 5, done.stdout + done.stderr
    assert lines[0] == "[(0, 2), (5, 2)] ['[0]<stdout>:a', '[1]<stdout>:a', 'line', 'line']"
    assert "num_proc has to be given" in lines[1]
    assert "raised an exception" in lines[2] and "KeyError('the cause')" in lines[2]
    assert "Timed out waiting for Spark tasks" in lines[3]
    assert lines[4] == "[(0, 2), (6, 2)]"
