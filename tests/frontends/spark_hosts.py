# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark on several hosts, for tests. Each host is a network namespace.

The master and the driver are on the first host. Each other host has a worker.
"""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import netns
import pytest
import spark_session

NIC = "wire"  # the name of the network interface on every host
CORES = 2  # of each worker
START_SECONDS = 120  # for a daemon: on busy machines they took half a minute


class Cluster:
    """Starts the daemons and waits until they are registered. Leaving the network ends them."""

    def __init__(self, net: netns.Network, folder: pathlib.Path):
        self.net = net
        self.folder = folder
        self.url = f"spark://{net.address(0)}:7077"
        self._spark_class = f"{spark_session.HOME}/bin/spark-class"
        self._start(0, "master.Master", ["-p", "7077"])
        self._wait_for(0, "elected leader")
        for host in range(1, net.hosts):
            options = ["-c", str(CORES), "-m", "2g", "-d", str(folder / f"work{host}"), self.url]
            self._start(host, "worker.Worker", options)
        for host in range(1, net.hosts):
            self._wait_for(host, "Successfully registered")

    def _log(self, host: int) -> pathlib.Path:
        return self.folder / f"daemon{host}.log"

    def _start(self, host: int, daemon: str, options: list[str]) -> None:
        command = [self._spark_class, f"org.apache.spark.deploy.{daemon}"]
        to_log = ["sh", "-c", 'exec "$@" > "$DAEMON_LOG" 2>&1', "sh"]
        env = {
            "DAEMON_LOG": str(self._log(host)),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.folder),
        }
        address = ["-h", self.net.address(host), "--webui-port", "8080"]
        self.net.start(host, [*to_log, *command, *address, *options], env)

    def _wait_for(self, host: int, sign: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        log, process = self._log(host), self.net.processes[host]
        while not log.exists() or sign not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no {sign!r} of host {host}:\n{log.read_text()[-4000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the daemons in an orderly way: a worker ends its executors."""
        for process in reversed(self.net.processes):
            process.terminate()
        for process in self.net.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)


@contextlib.contextmanager
def session(folder: pathlib.Path, workers: int = 2) -> Iterator[Any]:
    """A session of Spark with an executor per host; the caller's thread is on the driver's host."""
    if missing := netns.why_not():
        pytest.skip(missing)
    with contextlib.ExitStack() as stack:
        try:
            net = stack.enter_context(netns.Network(workers + 1))
        except OSError as error:
            pytest.skip(str(error))
        cluster = Cluster(net, folder)
        stack.callback(cluster.stop)
        stack.enter_context(net.inside(0))
        settings = {
            "spark.driver.host": net.address(0),
            "spark.driver.bindAddress": net.address(0),
            "spark.local.dir": str(folder),
            "spark.cores.max": str(workers * CORES),
            "spark.executor.cores": str(CORES),
            "spark.executor.memory": "512m",
            # The first job waits for all executors, so that tasks are spread over the hosts.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_SECONDS}s",
        }
        spark = stack.enter_context(spark_session.session(cluster.url, settings))
        spark.sparkContext.parallelize(range(workers), workers).count()
        yield spark
