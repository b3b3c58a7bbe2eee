# SPDX-License-Identifier: Apache-2.0
"""RunOptions, without ranks."""

from __future__ import annotations

import dataclasses
import io

import pytest
from horovod.runner.options import HorovodrunOptions, OutputStreams, RunOptions


def test_options_become_flags_of_horovodrun():
    assert HorovodrunOptions(num_proc=2, verbose=0).flags() == ["--num-proc", "2"]
    options = HorovodrunOptions(
        num_proc=4,
        slots=2,
        cooldown_range=[10, 20],
        hosts="h1:2,h2:2",
        start_timeout=30,
        network_interfaces=["eth0", "eth1"],
        mpi_args="--map-by node",
        use_mpi=True,
    )
    assert options.flags() == [
        *("--num-proc", "4", "--slots-per-host", "2", "--hosts", "h1:2,h2:2"),
        *("--start-timeout", "30", "--network-interfaces", "eth0,eth1"),
        *("--blacklist-cooldown-range", "10", "20", "--mpi-args=--map-by node"),
        *("--verbose", "--mpi"),
    ]


@pytest.mark.parametrize("field", ["hosts", "hostfile", "host_discovery_script"])
def test_a_run_is_local_unless_an_option_names_hosts(field):
    assert HorovodrunOptions().is_local()
    assert not HorovodrunOptions(**{field: "x"}).is_local()


def test_options_that_exclude_each_other_are_refused():
    with pytest.raises(ValueError, match="use_gloo and use_mpi exclude each other"):
        RunOptions(use_gloo=True, use_mpi=True)
    with pytest.raises(ValueError, match="hosts and hostfile exclude each other"):
        HorovodrunOptions(hosts="h1:1", hostfile="hosts")


def test_options_do_not_change_and_do_not_show_the_environment():
    options = RunOptions(environment={"TOKEN": "hidden"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.num_proc = 3
    assert "hidden" not in repr(options)


def test_streams_have_names():
    stream = io.StringIO()
    assert OutputStreams().by_name() == {}
    assert OutputStreams(stderr=stream, messages=stream).by_name() == {
        "stderr": stream,
        "messages": stream,
    }
