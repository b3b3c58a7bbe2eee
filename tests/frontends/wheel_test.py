# SPDX-License-Identifier: Apache-2.0
"""The installed package contains all that it needs, and needs no framework."""

import pathlib
import re
import subprocess
import sys

import horovod
import pytest
from horovod import _core
from horovod.runner import launch

HOME = pathlib.Path(horovod.__file__).parent
# Libraries that every manylinux system has; wheel_files_test.py checks their versions.
LIBC = {"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}
SYSTEM = LIBC | {"libgcc_s.so.1", "ld-linux-x86-64.so.2"}


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def dynamic(path: pathlib.Path) -> str:
    command = ["readelf", "--dynamic", "--wide", str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_package_brings_all_libraries_that_a_system_may_not_have():
    brought = {path.name: path for path in (HOME / "_core").glob("*.so*")}
    assert {"_native.abi3.so", "libhvd.so.1"} <= brought.keys()
    for name in ("_native.abi3.so", "libhvd.so.1"):
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic(brought[name])))
        assert needed <= SYSTEM | brought.keys(), name
        assert "[$ORIGIN]" in dynamic(brought[name])


def test_the_launcher_needs_nothing_but_the_system():
    try:
        path = launch.horovodrun_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic(pathlib.Path(path)))) <= SYSTEM
    command = [sys.executable, "-m", "horovod.runner.launch", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert horovod.__version__ in done.stdout and not done.stderr


def test_versions_agree():
    from importlib.metadata import version

    assert horovod.__version__ == _core.version() == version("horovod")


def test_the_extras_are_the_front_ends():
    from importlib.metadata import metadata

    extras = set(metadata("horovod").get_all("Provides-Extra") or [])
    front_ends = {"pytorch", "tensorflow", "keras", "spark"}
    assert extras == front_ends | {"tensorflow-cpu", "pytorch-spark", "all-frameworks"}


def test_without_a_framework_the_package_works_and_says_what_to_install():
    code = """
import sys
sys.modules["torch"] = None
import horovod
from horovod.common import basics, objects
basics.init()
assert objects.allgather_object({"rank": basics.rank()}) == [{"rank": 0}]
try:
    import horovod.torch
except ImportError as error:
    print(error)
"""
    assert "pip install torch" in run_python(code)


def test_a_rank_without_a_launcher_has_no_thread_and_no_socket():
    code = """
import os, torch
import horovod.torch as hvd
threads = os.listdir("/proc/self/task")
hvd.init()
model = torch.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
assert not model.weight._post_accumulate_grad_hooks
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1]
assert len(os.listdir("/proc/self/task")) == len(threads), "there are more threads"
files = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
links = [os.readlink(file) for file in files if os.path.islink(file)]
assert not [link for link in links if link.startswith("socket:")]
"""
    run_python(code)


def test_an_exit_without_shutdown_ends():
    code = """
import threading, time, torch
import horovod.torch as hvd
hvd.init()
handle = hvd.allreduce_async(torch.ones(2))
print("ended")
"""
    assert run_python(code) == "ended"
