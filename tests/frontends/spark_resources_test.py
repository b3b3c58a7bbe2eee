# SPDX-License-Identifier: Apache-2.0
"""horovod.spark.run under dynamic allocation, with one GPU per executor."""

import logging
import sys
import threading
import time

import cloudpickle
import horovod.spark
import pytest
import spark_session
from horovod.spark import cluster, runner
from horovod.spark.common.backend import SparkBackend

pytestmark = pytest.mark.timeout(300)
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors have no such module


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    script = tmp_path_factory.mktemp("gpus") / "discover.sh"
    script.write_text("""#!/bin/sh\necho '{"name": "gpu", "addresses": ["5", "7"]}'\n""")
    script.chmod(0o755)
    settings = {
        "spark.executor.cores": "2",  # and a GPU for one task
        "spark.executor.memory": "512m",
        "spark.worker.resource.gpu.amount": "2",
        "spark.worker.resource.gpu.discoveryScript": str(script),
        "spark.executor.resource.gpu.amount": "1",
        "spark.task.resource.gpu.amount": "1",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
    }
    with spark_session.session("local-cluster[1,4,2048]", settings) as session:
        yield session


def executors(spark):
    """The number of executors; the list also has the driver."""
    return spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1


def wait_for_executors(spark, number):
    deadline = time.monotonic() + 120
    while executors(spark) != number:
        assert time.monotonic() < deadline, executors(spark)
        time.sleep(0.1)


def device_and_sum():
    import numpy as np
    from horovod.common import arrays, basics
    from horovod.spark import task

    basics.init()
    total = arrays.allreduce(np.ones(1), op=basics.Sum)
    return task.get_available_devices(), total.tolist()


def check_results(results):
    assert sorted(devices for devices, _ in results) == [["5"], ["7"]]
    assert [total for _, total in results] == [[2.0], [2.0]]


def test_executors_come_on_demand_and_every_rank_has_the_device_of_its_task(spark):
    wait_for_executors(spark, 0)
    check_results(horovod.spark.run(device_and_sum, num_proc=2))
    # The number of tasks that can run now, not the number of cores.
    assert spark.sparkContext.defaultParallelism == 4
    assert SparkBackend().num_processes() == 2


def test_more_ranks_than_there_can_be_slots_are_refused_at_once(spark):
    with pytest.raises(RuntimeError, match=r"2 task slots at most, but 3 .*maxExecutors is 2"):
        horovod.spark.run(device_and_sum, num_proc=3)


def test_tasks_that_spark_may_start_twice_are_refused_at_once():
    from pyspark import SparkConf

    conf = SparkConf(loadDefaults=False)
    cluster.check_on_demand(conf, 2)
    with pytest.raises(RuntimeError, match=r"spark\.speculation .* to false"):
        cluster.check_on_demand(conf.set("spark.speculation", "true"), 2)


def test_missing_tasks_are_reported_while_the_run_waits(spark, monkeypatch, caplog, tmp_path):
    wait_for_executors(spark, 0)  # those of the run before have gone, and others come
    go_on = tmp_path / "go on"
    results = []

    def occupy(_):
        import time

        while not go_on.exists():
            time.sleep(0.1)

    other = threading.Thread(
        target=lambda: spark.sparkContext.parallelize(range(1), 1).foreach(occupy)
    )
    other.start()
    try:
        wait_for_executors(spark, 1)
        monkeypatch.setattr(runner, "WARN_SECONDS", 1.0)
        with caplog.at_level(logging.WARNING, "horovod.spark"):
            waiting = threading.Thread(
                target=lambda: results.extend(horovod.spark.run(device_and_sum, num_proc=2))
            )
            waiting.start()
            deadline = time.monotonic() + 120
            while "1 of 2 Spark tasks have started" not in caplog.text:
                assert time.monotonic() < deadline, caplog.text
                time.sleep(0.1)
    finally:
        go_on.touch()
        other.join()
    waiting.join()
    check_results(results)
