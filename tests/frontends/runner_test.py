# SPDX-License-Identifier: Apache-2.0
"""horovod.run."""

import sys

import horovod
import pytest
from horovod.runner import launch, mpi_run


@pytest.fixture(autouse=True)
def _launcher():
    try:
        launch.horovodrun_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_results_come_back_by_rank():
    def train(base, factor=1):
        from horovod.common import basics, objects

        basics.init()
        return factor * base + basics.rank(), objects.allgather_object(basics.rank())

    assert horovod.run(train, (10,), {"factor": 2}, num_proc=2) == [(20, [0, 1]), (21, [0, 1])]


@pytest.mark.parametrize("use_mpi", [False, True])
def test_results_come_back_by_rank_and_lines_are_whole(use_mpi, capfd):
    if use_mpi and not mpi_run.mpi_available():
        pytest.skip("there is no mpirun")

    def train():
        import sys

        from horovod.common import basics

        basics.init()
        for number in range(300):
            for piece in (f"rank {basics.rank()}", f" is at {number} ", "x" * 50 + "\n"):
                sys.stdout.write(piece)
                sys.stdout.flush()
        return basics.rank(), basics.size()

    assert horovod.run(train, num_proc=2, use_mpi=use_mpi) == [(0, 2), (1, 2)]
    lines = capfd.readouterr().out.splitlines()
    label = "[1,{0}]<stdout>:" if use_mpi else "[{0}]<stdout>:"
    for rank in (0, 1):
        own = label.format(rank)
        expected = [f"{own}rank {rank} is at {number} {'x' * 50}" for number in range(300)]
        assert [line for line in lines if line.startswith(own)] == expected
    assert len(lines) == 600


def test_large_functions_and_results_travel():
    load = b"x" * 10_000_000
    assert horovod.run(lambda: len(load) * b"y", num_proc=1) == [b"y" * 10_000_000]


def test_an_exception_comes_back_with_its_rank_and_traceback():
    def fail():
        from horovod.common import basics

        basics.init()
        if basics.rank() == 1:
            raise KeyError("the cause")
        from horovod.common import objects

        objects.allgather_object(0)  # ends when rank 1 does

    with pytest.raises(RuntimeError, match="one or more processes exited with non-zero") as caught:
        horovod.run(fail, num_proc=2)
    assert "rank 1" in str(caught.value) and "the cause" in str(caught.value)
    assert "in fail" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_notebook_sees_what_ranks_write(monkeypatch):
    import io

    page = io.StringIO()
    monkeypatch.setattr(sys, "stdout", page)
    horovod.run(lambda: print("hello from a rank"), num_proc=1)
    assert "hello from a rank" in page.getvalue()


def test_arguments_that_exclude_each_other_are_refused():
    with pytest.raises(ValueError, match="hosts"):
        horovod.run(print, hosts="a:1", hostfile="hosts")
    with pytest.raises(ValueError, match="use_gloo"):
        horovod.run(print, use_gloo=True, use_mpi=True)
    with (
        pytest.warns(DeprecationWarning, match="num_proc"),
        pytest.raises(ValueError, match="hosts"),
    ):
        horovod.run(print, np=2, hosts="a:1", hostfile="hosts")


def test_a_function_whose_module_ranks_do_not_have_says_so(tmp_path, monkeypatch):
    (tmp_path / "only_of_the_caller.py").write_text("def train():\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_of_the_caller

    with pytest.raises(RuntimeError, match="No module named 'only_of_the_caller'"):
        horovod.run(only_of_the_caller.train, num_proc=1)
