# SPDX-License-Identifier: Apache-2.0
"""Objects between ranks, with an attacker that changes their bytes."""

import os
import subprocess
import sys

import pytest
import suite
from horovod import _core


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The output of the two ranks of objects_rank.py, which believe to be on two hosts."""
    secret = _core.make_secret()
    server = _core.rendezvous_start(secret, "127.0.0.1", False)
    ranks = []
    for rank in range(2):
        settings = {
            "HOROVOD_RANK": str(rank),
            "HOROVOD_SIZE": "2",
            "HOROVOD_HOSTNAME": f"host-{rank}",
            "HOROVOD_NETWORK_INTERFACES": "lo",
            "HOROVOD_RENDEZVOUS": f"127.0.0.1:{_core.rendezvous_port(server)}",
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
        _core.rendezvous_stop(server)


@pytest.mark.parametrize("check", suite.checks_of("objects_rank"))
def test_objects(outputs, check):
    for output in outputs:
        assert f"passed {check}\n" in output, output
