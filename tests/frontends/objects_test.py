# SPDX-License-Identifier: Apache-2.0
"""An attacker changes the bytes of objects between two ranks (objects_rank.py)."""

import os
import subprocess
import sys

import pytest
import suite
from horovod import _core


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The output of both ranks of objects_rank.py. Their host names differ, so they use TCP."""
    secret = _core.make_secret()
    store = _core.rendezvous_start(secret, "127.0.0.1", False)
    ranks = []
    for rank in range(2):
        settings = {
            "HOROVOD_RANK": str(rank),
            "HOROVOD_SIZE": "2",
            "HOROVOD_HOSTNAME": f"host-{rank}",
            "HOROVOD_NETWORK_INTERFACES": "lo",
            "HOROVOD_RENDEZVOUS": f"127.0.0.1:{_core.rendezvous_port(store)}",
            "_HOROVOD_SECRET_KEY": secret,
        }
        folder = tmp_path_factory.mktemp(f"rank-{rank}")
        ranks.append(
            subprocess.Popen(
                [sys.executable, str(suite.HERE / "objects_rank.py"), str(folder)],
                env={**os.environ, **settings},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        return [rank.communicate(timeout=60)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
        _core.rendezvous_stop(store)


@pytest.mark.parametrize("check", suite.checks_of("objects_rank"))
def test_objects(outputs, check):
    for output in outputs:
        assert f"passed {check}\n" in output, output
