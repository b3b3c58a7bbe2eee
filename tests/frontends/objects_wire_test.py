# SPDX-License-Identifier: Apache-2.0
"""Objects between two hosts, with an attacker on the cable between them."""

import os
import pickle
import sys

import cloudpickle
import netns
import pytest
from horovod import _core
from wire import TappedWire

LOAD = {"k": "H" * 200}
RANK = """
from horovod.common import basics, objects
basics.init()
load = {"k": "H" * 200} if basics.rank() == 0 else None
print("first", objects.broadcast_object(load, 0, "model"), flush=True)
"""


class Attack:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def network():
    if problem := netns.why_not():
        pytest.skip(problem)
    try:
        with netns.Network(2) as network:
            yield network
    except OSError as error:
        pytest.skip(str(error))


def run(network):
    """The output of ranks 0 and 1, each on its own host."""
    settings = {
        "HOROVOD_SIZE": "2",
        "HOROVOD_TLS": "0",  # with TLS the test could not find the pickle in the packets
        "HOROVOD_RENDEZVOUS": f"{network.address(0)}:7000",
        "_HOROVOD_SECRET_KEY": _core.make_secret(),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "30",
        "PYTHONUNBUFFERED": "1",
    }
    command = ["sh", "-c", 'exec "$0" "$@" 2>&1', sys.executable, "-c", RANK]
    ranks = []
    for host in range(2):
        place = {"HOROVOD_RANK": str(host), "HOROVOD_HOSTNAME": f"host-{host}"}
        ranks.append(network.start(host, command, {**settings, **place}))
    return [rank.communicate(timeout=60)[0] for rank in ranks]


def test_an_exchanged_pickle_is_not_run(network, tmp_path):
    good = cloudpickle.dumps(LOAD)
    evil = pickle.dumps(Attack(tmp_path / "ran")).ljust(len(good), b"\0")
    assert len(evil) == len(good)
    with TappedWire(network, lambda data: data.replace(good, evil)) as wire:
        outputs = run(network)
    assert wire.changed > 0, outputs
    assert not (tmp_path / "ran").exists()
    assert "first" not in outputs[1]
    assert "HorovodInternalError" in outputs[1]


def test_the_wire_of_these_tests_lets_objects_through(network):
    with TappedWire(network, lambda data: data) as wire:
        outputs = run(network)
    assert wire.changed == 0
    assert all("first {'k': 'HHH" in output for output in outputs), outputs
