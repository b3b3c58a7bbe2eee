# SPDX-License-Identifier: Apache-2.0
"""The tf.data service: a compute job prepares datasets for a training job."""

import importlib.util
import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest
import suite
from horovod.runner import launch

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("TensorFlow is not installed", allow_module_level=True)

from horovod.runner.common.util.timeout import TimeoutException
from horovod.tensorflow.data import compute_service

KEY = bytes(range(32))
# Two shared datasets, each with its own name, and one that every rank gets completely.
TRAIN = """
import json, sys
import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.data.compute_service import TfDataServiceConfig

hvd.init()
config = TfDataServiceConfig.read(sys.argv[1], wait_for_file_creation=True)
at, size = hvd.rank(), hvd.size()
data = tf.data.Dataset.range(200).map(lambda x: 2 * x)
shared = data.send_to_data_service(config, at, size, reuse_dataset=True)
epochs = [[int(x) for x in shared] for _ in range(2)]
more = tf.data.Dataset.range(7).send_to_data_service(config, at, size, reuse_dataset=True)
whole = tf.data.Dataset.range(5).send_to_data_service(config, at, size)
turns = tf.data.Dataset.range(5).repeat().send_to_data_service(
    config, at, size, "parallel_epochs", reuse_dataset=True, round_robin=True)
print(json.dumps([*epochs, *([int(x) for x in data] for data in (more, whole, turns.take(4)))]))
hvd.allgather_object(None)
if at == 0:
    config.compute_client().shutdown()
"""
TRAIN_BESIDE_DISPATCHERS = """
import json, sys
import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.data import compute_service

hvd.init()
config = compute_service.TfDataServiceConfig.read(sys.argv[1], wait_for_file_creation=True)
data = tf.data.Dataset.range(50)
try:
    data.send_to_data_service(config, hvd.rank())
    raise SystemExit("no RuntimeError")
except RuntimeError as error:
    assert "training side" in str(error)
with compute_service.tf_data_service(config, hvd.rank()) as address:
    service = tf.data.experimental.service.distribute("distributed_epoch", address)
    print(json.dumps(sorted(int(x) for x in data.apply(service))))
    hvd.allgather_object(None)
if hvd.rank() == 0:
    config.compute_client().shutdown()
"""


@pytest.fixture
def compute_job(tmp_path, monkeypatch):
    """Starts a compute job of two ranks, which has to end by itself."""
    monkeypatch.setenv("HOROVOD_NETWORK_INTERFACES", "lo")
    jobs = []

    def start(*options):
        file = tmp_path / "service.json"
        module = [sys.executable, "-m", "horovod.tensorflow.data.compute_worker", str(file)]
        launcher = [launch.horovodrun_path(), "-np", "2", "-H", "localhost:2"]
        jobs.append(subprocess.Popen([*launcher, *module, *options], env=dict(os.environ)))
        return file

    yield start
    try:
        assert [job.wait(60) for job in jobs] == [0] * len(jobs)
        assert not list(tmp_path.iterdir()), "the file is left"
    finally:
        for job in jobs:
            job.kill()


def read(outputs: list[str]) -> list:
    """The last line that each rank has printed, after "[rank]<stdout>:"."""
    return [json.loads(output.splitlines()[-1].partition(">:")[2]) for output in outputs]


@pytest.mark.timeout(240)
def test_two_ranks_share_the_elements_that_two_workers_prepare(compute_job):
    first, second = read(suite.run_ranks(["-c", TRAIN, str(compute_job())], 2, timeout=200))
    for ours, theirs in zip(first[:2], second[:2]):
        assert sorted(ours + theirs) == list(range(0, 400, 2))
    assert sorted(first[2] + second[2]) == list(range(7))
    assert sorted(first[3]) == sorted(second[3]) == list(range(5))
    # The workers take turns; each gives its next elements, one to each rank.
    assert all((a + 1) % 5 == b for a, b in zip(first[4], second[4])) and len(first[4]) == 4


@pytest.mark.timeout(240)
def test_dispatchers_may_be_on_the_side_of_the_training(compute_job):
    file = compute_job("--dispatchers", "2", "--dispatcher-side", "training")
    script = ["-c", TRAIN_BESIDE_DISPATCHERS, str(file)]
    assert read(suite.run_ranks(script, 2, timeout=200)) == [list(range(50))] * 2


@pytest.mark.timeout(60)
def test_a_configuration_is_read_as_it_was_written_and_by_its_user_only(tmp_path):
    config = compute_service.TfDataServiceConfig(2, 3, "training", ["a:1", "[::1]:2"], KEY, 5)
    assert config.to_dict()["key"] == KEY.hex()
    assert compute_service.TfDataServiceConfig.from_dict(config.to_dict()) == config
    file = pathlib.Path(tmp_path / "service.json")
    file.write_text("something old and very long" * 100)
    config.write(str(file))
    assert compute_service.TfDataServiceConfig.read(str(file)) == config
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["service.json"]
    with pytest.raises(AttributeError):
        config.dispatchers = 1
    with pytest.raises(FileNotFoundError):
        compute_service.TfDataServiceConfig.read(str(tmp_path / "none"))
    assert KEY.hex() not in repr(config) and repr(KEY) not in repr(config)


@pytest.mark.timeout(60)
def test_what_is_wrong_with_a_registration_is_said(monkeypatch):
    monkeypatch.setenv("HOROVOD_NETWORK_INTERFACES", "lo")
    with compute_service.compute_service(2, 1, "compute", timeout=3) as config:
        client = config.compute_client()
        with pytest.raises(IndexError, match="Dispatcher 2 is not among 0 to 1"):
            client.register_dispatcher(2, "host:1")
        with pytest.raises(TimeoutException, match="dispatcher 1"):
            client.wait_for_dispatcher(1)
        client.register_dispatcher(1, "host:1")
        client.register_dispatcher(1, "host:1")
        with pytest.raises(ValueError, match="registered at host:1"):
            client.register_dispatcher(1, "host:2")
        assert config.compute_client().wait_for_dispatcher(1) == "host:1"
        with pytest.raises(TimeoutException, match="worker 0 of dispatcher 1"):
            client.wait_for_workers(1)
        other = compute_service.TfDataServiceConfig.from_dict(
            {**config.to_dict(), "key": KEY.hex()}
        )
        with pytest.raises(TimeoutException, match="is this its configuration"):
            other.compute_client()
