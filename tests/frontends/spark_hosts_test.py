# SPDX-License-Identifier: Apache-2.0
"""horovod.spark.run on two hosts with addresses of their own, under a real standalone Spark."""

import io
import os
import sys

import cloudpickle
import horovod.spark
import pytest
import spark_hosts

pytestmark = pytest.mark.timeout(400)
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors have no such module

ELEMENTS = 2 << 20
MEBIBYTES = ELEMENTS * 4 >> 20


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with spark_hosts.session(tmp_path_factory.mktemp("spark")) as session:
        yield session


def train(nic):
    """Sum values of all ranks. Returns the place, whether the sum is right, and received MiB."""
    import pathlib

    import numpy as np
    from horovod.common import arrays, basics

    def received():
        lines = pathlib.Path("/proc/self/net/dev").read_text().splitlines()
        counters = next(line.split() for line in lines if line.strip().startswith(f"{nic}:"))
        return int(counters[1])

    basics.init()
    values = np.arange(ELEMENTS, dtype=np.float32) + basics.rank()
    before = received()
    total = arrays.allreduce(values, op=basics.Sum)
    mebibytes = (received() - before) / 2**20
    size = basics.size()
    expected = np.arange(ELEMENTS, dtype=np.float32) * size + size * (size - 1) / 2
    place = [basics.rank(), basics.local_rank(), basics.local_size()]
    place += [basics.cross_rank(), basics.cross_size()]
    print(f"rank {basics.rank()} has trained")
    return place, bool(np.array_equal(total, expected)), mebibytes


@pytest.mark.parametrize("nics", [None, [spark_hosts.NIC]])
def test_ranks_on_two_hosts_sum_over_the_wire(spark, nics):
    out = io.StringIO()
    results = horovod.spark.run(train, args=(spark_hosts.NIC,), num_proc=2, nics=nics, stdout=out)
    assert [place for place, _, _ in results] == [[0, 0, 1, 0, 2], [1, 0, 1, 1, 2]]
    assert [is_right for _, is_right, _ in results] == [True, True]
    # Each of two ranks must receive as many bytes as it sums. Received bytes are counted, because
    # sent bytes may still be in buffers when a rank ends.
    assert all(received >= MEBIBYTES for _, _, received in results), results
    lines = sorted(out.getvalue().splitlines())
    assert lines == [f"[{rank}]<stdout>:rank {rank} has trained" for rank in (0, 1)]


def test_ranks_of_a_host_follow_each_other(spark):
    results = horovod.spark.run(train, args=(spark_hosts.NIC,), num_proc=4)
    assert [place for place, _, _ in results] == [
        [0, 0, 2, 0, 2],
        [1, 1, 2, 0, 2],
        [2, 0, 2, 1, 2],
        [3, 1, 2, 1, 2],
    ]
    assert all(is_right for _, is_right, _ in results)


def test_mpirun_starts_a_daemon_on_each_host(spark):
    def train_and_name_parent(nic):
        import pathlib

        namespace = os.readlink("/proc/self/ns/net")
        parent = pathlib.Path(f"/proc/{os.getppid()}/comm").read_text().strip()
        return train(nic), namespace, (parent, os.getppid())

    def run(**options):
        return horovod.spark.run(
            train_and_name_parent, args=(spark_hosts.NIC,), num_proc=4, use_mpi=True, **options
        )

    results = run()
    assert [place for (place, _, _), _, _ in results] == [
        [0, 0, 2, 0, 2],
        [1, 1, 2, 0, 2],
        [2, 0, 2, 1, 2],
        [3, 1, 2, 1, 2],
    ]
    assert all(is_right for (_, is_right, _), _, _ in results)
    namespaces, parents = [result[1] for result in results], [result[2] for result in results]
    assert namespaces[0] == namespaces[1] != namespaces[2] == namespaces[3]
    assert parents[0] == parents[1] != parents[2] == parents[3]
    assert {name for name, _ in parents} == {"orted"}
    # One rank on each host first, then the second ones.
    results = run(extra_mpi_args="--map-by node")
    assert [place for (place, _, _), _, _ in results] == [
        [0, 0, 2, 0, 2],
        [1, 0, 2, 1, 2],
        [2, 1, 2, 0, 2],
        [3, 1, 2, 1, 2],
    ]
    assert all(is_right for (_, is_right, _), _, _ in results)


def test_an_interface_that_no_host_has_is_named(spark):
    with pytest.raises(RuntimeError, match="nowhere0"):
        horovod.spark.run(train, args=(spark_hosts.NIC,), num_proc=2, nics=["nowhere0"])
