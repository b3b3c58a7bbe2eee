# SPDX-License-Identifier: Apache-2.0
"""Checks that every front end has to pass. They compare its results with arrays of numpy.

suite.py calls each check_* function on every rank of a job. An adapter `<framework>_adapter.py` has
a class Frontend with these members:

- hvd: the front end's module
- dtypes: the names of the dtypes that it reduces, in numpy or in the framework
- InvalidArgument, Internal: its exceptions for errors of the caller, and for failures of the job
- start(): hvd.init() with the process sets `evens` and `odds` of static_sets()
- barrier(name): waits until all ranks have called it
- tensor(array, dtype=None), array(tensor): convert; a dtype that numpy lacks becomes float
- gradient(function, array): d sum(function(x) * weights) / dx where weights are 1, 2, 3, …
"""

from __future__ import annotations

import numpy as np

FACTORS = {"prescale_factor": 0.5, "postscale_factor": 3.0}


def ramp(rank: int, *shape: int) -> np.ndarray:
    """1 + rank, 2 + rank, …: small whole numbers, because they are exact in every dtype."""
    return (np.arange(np.prod(shape, dtype=int)) % 5 + 1 + rank).reshape(shape)


def ramps(frontend, *shape: int) -> list[np.ndarray]:
    return [ramp(rank, *shape) for rank in range(frontend.hvd.size())]


def raises(kind, text, function, *args, **kwargs) -> None:
    try:
        function(*args, **kwargs)
    except kind as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
        return
    raise AssertionError(f"{kind} was not raised")


def static_sets(size: int) -> tuple[list[int], list[int]]:
    return list(range(0, size, 2)), list(range(1, size, 2))


def check_every_rank_has_its_rank_and_size(frontend):
    hvd = frontend.hvd
    assert hvd.is_initialized()
    assert 0 <= hvd.rank() < hvd.size()
    assert (hvd.local_rank(), hvd.local_size()) == (hvd.rank(), hvd.size())
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.gloo_enabled() and hvd.gloo_built() and not hvd.mpi_enabled()
    assert (hvd.nccl_built(), hvd.cuda_built(), hvd.mpi_built()) == (0, False, False)
    ranks = hvd.allgather_object(hvd.rank())
    assert ranks == list(range(hvd.size()))


def check_allreduce_of_every_dtype_and_op_equals_numpy(frontend):
    hvd = frontend.hvd
    values = ramps(frontend, 7, 3)
    wanted = {
        hvd.Sum: sum(values),
        hvd.Min: np.min(values, axis=0),
        hvd.Max: np.max(values, axis=0),
        hvd.Product: np.prod(values, axis=0),
    }
    for dtype in frontend.dtypes:
        mine = frontend.tensor(values[hvd.rank()], dtype)
        for op, result in wanted.items():
            if dtype in ("uint8", "int8") and result.max() > np.iinfo(dtype).max:
                continue
            name = f"{dtype}.{op}"
            reduced = frontend.array(hvd.allreduce(mine, op=op, name=name))
            np.testing.assert_array_equal(reduced, result, name)
        average = frontend.array(hvd.allreduce(mine, name=f"{dtype}.average"))
        exact = sum(values) / hvd.size()
        if "int" in dtype:
            exact = sum(values) // hvd.size()
        np.testing.assert_allclose(average, exact, rtol=1e-2, err_msg=dtype)
        np.testing.assert_array_equal(frontend.array(mine), values[hvd.rank()])


def check_factors_scale_before_and_after(frontend):
    hvd = frontend.hvd
    values = ramps(frontend, 5)
    mine = frontend.tensor(values[hvd.rank()], "float32")
    reduced = hvd.allreduce(mine, op=hvd.Sum, name="scaled", **FACTORS)
    np.testing.assert_allclose(frontend.array(reduced), 1.5 * sum(values))
    (reduced,) = hvd.grouped_allreduce([mine], op=hvd.Sum, **FACTORS)
    np.testing.assert_allclose(frontend.array(reduced), 1.5 * sum(values))


def check_scalars_and_empty_tensors_are_tensors_too(frontend):
    hvd = frontend.hvd
    scalar = frontend.tensor(np.float32(hvd.rank()))
    total = frontend.array(hvd.allreduce(scalar, op=hvd.Sum))
    assert total.shape == () and total == sum(range(hvd.size()))
    empty = frontend.tensor(np.zeros((0, 3), np.float32))
    assert frontend.array(hvd.allreduce(empty)).shape == (0, 3)
    assert frontend.array(hvd.allgather(empty)).shape == (0, 3)
    assert frontend.array(hvd.broadcast(empty, 0)).shape == (0, 3)
    assert frontend.array(hvd.reducescatter(empty, op=hvd.Sum)).shape == (0, 3)


def check_a_group_is_reduced_as_one(frontend):
    hvd = frontend.hvd
    shapes = [(3,), (2, 2), (1,), ()]
    mine = [frontend.tensor(ramp(hvd.rank(), *shape), "float32") for shape in shapes]
    for name in ("group", None):
        reduced = hvd.grouped_allreduce(mine, op=hvd.Sum, name=name)
        for shape, tensor in zip(shapes, reduced):
            np.testing.assert_array_equal(frontend.array(tensor), sum(ramps(frontend, *shape)))
    gathered = hvd.grouped_allgather(mine[:3])
    for shape, tensor in zip(shapes, gathered):
        np.testing.assert_array_equal(
            frontend.array(tensor), np.concatenate(ramps(frontend, *shape))
        )


def check_allgather_joins_different_numbers_of_rows(frontend):
    hvd = frontend.hvd
    tensors = [ramp(rank, rank, 3) for rank in range(hvd.size())]  # rank 0 has none
    for dtype in frontend.dtypes:
        mine = frontend.tensor(tensors[hvd.rank()], dtype)
        gathered = frontend.array(hvd.allgather(mine, name=f"gather.{dtype}"))
        np.testing.assert_array_equal(gathered, np.concatenate(tensors), dtype)


def check_broadcast_gives_all_ranks_the_roots_tensor(frontend):
    hvd = frontend.hvd
    for root in range(hvd.size()):
        for dtype in frontend.dtypes:
            mine = frontend.tensor(ramp(hvd.rank(), 4), dtype)
            sent = hvd.broadcast(mine, root, name=f"from.{root}.{dtype}")
            np.testing.assert_array_equal(frontend.array(sent), ramp(root, 4))


def check_alltoall_sends_rows_by_splits(frontend):
    hvd = frontend.hvd
    rank, size = hvd.rank(), hvd.size()
    # Rank i sends i + j rows of the value i to rank j. It does not send its last row.
    rows = [rank + to for to in range(size)]
    mine = frontend.tensor(np.full((sum(rows) + 1, 2), rank), "float32")
    splits = frontend.tensor(np.array(rows, np.int32))
    output, received = hvd.alltoall(mine, splits, name="uneven")
    assert frontend.array(received).tolist() == [sender + rank for sender in range(size)]
    wanted = np.repeat(np.arange(size), [sender + rank for sender in range(size)])
    np.testing.assert_array_equal(frontend.array(output)[:, 0], wanted)
    even = hvd.alltoall(frontend.tensor(np.arange(2 * size), "int64"))
    np.testing.assert_array_equal(frontend.array(even), [2 * rank, 2 * rank + 1] * size)


def check_reducescatter_gives_the_first_ranks_one_row_more(frontend):
    hvd = frontend.hvd
    rows = 2 * hvd.size() + 1
    mine = frontend.tensor(ramp(hvd.rank(), rows, 2), "float32")
    total = np.array_split(sum(ramps(frontend, rows, 2)), hvd.size())[hvd.rank()]
    part = hvd.reducescatter(mine, op=hvd.Sum, name="scatter")
    np.testing.assert_array_equal(frontend.array(part), total)
    part = hvd.reducescatter(mine, name="scatter.average")
    np.testing.assert_allclose(frontend.array(part), total / hvd.size())


def check_objects_are_sent(frontend):
    hvd = frontend.hvd
    root = hvd.size() - 1
    mine = {"rank": hvd.rank(), "text": "ä" * 1000} if hvd.rank() == root else None
    assert hvd.broadcast_object(mine, root) == {"rank": root, "text": "ä" * 1000}
    gathered = hvd.allgather_object([hvd.rank()] * hvd.rank())
    assert gathered == [[rank] * rank for rank in range(hvd.size())]


def check_ranks_that_disagree_all_get_an_error_and_continue(frontend):
    hvd = frontend.hvd
    rank = hvd.rank()
    two_kinds = {
        "shapes": lambda: hvd.allreduce(frontend.tensor(np.zeros(2 + rank % 2)), name="disagree"),
        "types": lambda: hvd.allreduce(
            frontend.tensor(np.zeros(2), ["float32", "float64"][rank % 2]), name="disagree"
        ),
        "reduction": lambda: hvd.allreduce(
            frontend.tensor(np.zeros(2)), op=[hvd.Sum, hvd.Max][rank % 2], name="disagree"
        ),
        "root": lambda: hvd.broadcast(frontend.tensor(np.zeros(2)), rank % 2, name="disagree"),
        "scale": lambda: hvd.allreduce(
            frontend.tensor(np.zeros(2)), prescale_factor=1.0 + rank % 2, name="disagree"
        ),
    }
    for function in two_kinds.values():
        raises(frontend.Internal, "Mismatched", function)
        total = hvd.allreduce(frontend.tensor(np.ones(2)), op=hvd.Sum, name="disagree")
        np.testing.assert_array_equal(frontend.array(total), [hvd.size()] * 2)


def check_an_invalid_call_fails_at_once_on_its_rank_only(frontend):
    hvd = frontend.hvd
    if hvd.rank() == 0:
        two = frontend.tensor(np.zeros(2))
        raises(frontend.InvalidArgument, "root rank", hvd.broadcast, two, hvd.size())
        many = frontend.tensor(np.full(hvd.size(), 2, np.int32))
        raises(frontend.InvalidArgument, "splits", hvd.alltoall, two, many)
        one = frontend.tensor(np.ones(1, np.int32))
        raises(frontend.InvalidArgument, "splits", hvd.alltoall, two, one)
        odd = frontend.tensor(np.zeros(hvd.size() + 1))
        raises(frontend.InvalidArgument, "evenly", hvd.alltoall, odd)
        unregistered = hvd.ProcessSet([0])
        raises(ValueError, "not registered", hvd.allreduce, two, process_set=unregistered)
    raises(
        frontend.Internal,
        "Sum or Average",
        hvd.reducescatter,
        frontend.tensor(np.zeros(hvd.size())),
        op=hvd.Max,
    )


def check_process_sets_reduce_among_themselves(frontend):
    hvd = frontend.hvd
    mine, others = frontend.sets[hvd.rank() % 2], frontend.sets[1 - hvd.rank() % 2]
    assert mine.included() and not others.included()
    assert mine.ranks == list(range(hvd.rank() % 2, hvd.size(), 2))
    assert (mine.rank(), mine.size()) == (hvd.rank() // 2, len(mine.ranks))
    raises(ValueError, "not in the process set", others.rank)
    tensor = frontend.tensor(ramp(hvd.rank(), 3))
    # A set of one rank makes more calls first: each set numbers its calls without a name itself.
    for _ in range(hvd.rank() + 1):
        hvd.allreduce(tensor, process_set=mine) if mine.size() == 1 else None
    total = hvd.allreduce(tensor, op=hvd.Sum, process_set=mine)
    np.testing.assert_array_equal(frontend.array(total), sum(ramp(r, 3) for r in mine.ranks))
    sent = hvd.broadcast(tensor, mine.ranks[-1], process_set=mine)
    np.testing.assert_array_equal(frontend.array(sent), ramp(mine.ranks[-1], 3))
    raises(frontend.InvalidArgument, "process set", hvd.allreduce, tensor, process_set=others)
    assert hvd.broadcast_object(hvd.rank(), mine.ranks[0], process_set=mine) == mine.ranks[0]


def check_process_sets_are_added_and_removed(frontend):
    hvd = frontend.hvd
    ranks = [0, 1]
    if hvd.size() == 2:
        raises(ValueError, "duplicate process set", hvd.add_process_set, ranks)
        ranks = [1]
        raises(ValueError, "duplicate process set", hvd.add_process_set, ranks)
        return
    added = hvd.add_process_set(hvd.ProcessSet(ranks))
    raises(ValueError, "duplicate process set", hvd.add_process_set, ranks)
    raises(ValueError, "duplicate process set", hvd.add_process_set, added)
    if added.included():
        total = hvd.allreduce(frontend.tensor(np.ones(2)), op=hvd.Sum, process_set=added)
        np.testing.assert_array_equal(frontend.array(total), [2, 2])
    assert hvd.remove_process_set(added)
    assert added.process_set_id is None
    assert not hvd.remove_process_set(added)
    assert not hvd.remove_process_set(hvd.global_process_set)


def check_compression_changes_little(frontend):
    hvd = frontend.hvd
    mine = frontend.tensor(ramp(hvd.rank(), 6) / 8, "float32")
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        reduced = hvd.allreduce(mine, compression=compression, op=hvd.Sum)
        np.testing.assert_allclose(frontend.array(reduced), sum(ramps(frontend, 6)) / 8)
    counts = frontend.tensor(np.array([70000], np.int32))
    reduced = hvd.allreduce(counts, compression=hvd.Compression.fp16, op=hvd.Sum)
    assert frontend.array(reduced).tolist() == [70000 * hvd.size()]


def check_gradients_flow_through_collectives(frontend):
    hvd = frontend.hvd
    rank, size = hvd.rank(), hvd.size()
    x = ramp(rank, 2 * size).astype(np.float32)
    weights = np.arange(1, 2 * size + 1)

    def expect(wanted, function):
        np.testing.assert_allclose(frontend.gradient(function, x), wanted, rtol=1e-5)

    expect(weights * size, lambda t: hvd.allreduce(t, op=hvd.Sum))
    expect(weights, hvd.allreduce)
    expect(weights * size * 1.5, lambda t: hvd.allreduce(t, op=hvd.Sum, **FACTORS))
    expect(weights * (rank == 1), lambda t: hvd.broadcast(t, 1))
    every = np.arange(1, 2 * size * size + 1).reshape(size, -1)
    expect(every[rank], hvd.allgather)
    # The two rows that this rank sent to rank j were rows 2·rank and 2·rank + 1 there.
    expect(np.tile([2 * rank + 1, 2 * rank + 2], size), hvd.alltoall)
    expect(np.tile([1, 2], size) * size, lambda t: hvd.reducescatter(t, op=hvd.Sum))
    expect(np.tile([1, 2], size), hvd.reducescatter)


def check_a_rank_without_data_joins(frontend):
    hvd = frontend.hvd
    total = None
    for step in range(hvd.rank() + 1):
        total = hvd.allreduce(frontend.tensor(np.ones(3)), op=hvd.Sum, name=f"uneven.{step}")
    last = frontend.array(hvd.join())
    # In its last step a rank reduces together with the ranks that have more data.
    np.testing.assert_array_equal(frontend.array(total), [hvd.size() - hvd.rank()] * 3)
    assert hvd.allgather_object(int(last)) == [int(last)] * hvd.size()
    frontend.barrier("after join")


def check_some_of_the_ranks_can_be_a_job(frontend):
    hvd = frontend.hvd
    size, rank = hvd.size(), hvd.rank()
    hvd.shutdown()
    half = [r for r in range(size) if r // (size // 2) == rank // (size // 2)]
    hvd.init(half)
    assert (hvd.rank(), hvd.size()) == (half.index(rank), len(half))
    total = hvd.allreduce(frontend.tensor(np.ones(2)), op=hvd.Sum, name="half")
    np.testing.assert_array_equal(frontend.array(total), [len(half)] * 2)
    hvd.shutdown()
    raises(ValueError, "list of ranks", hvd.init, comm=5)
    all_ranks = hvd.ProcessSet(range(size))
    raises(ValueError, "is a duplicate", hvd.init, process_sets=[all_ranks])
    one = hvd.ProcessSet([0])
    raises(ValueError, "is a duplicate", hvd.init, process_sets=[one, hvd.ProcessSet([0])])
    raises(ValueError, "dynamic", hvd.init, process_sets="static")
    frontend.start()


def check_a_job_starts_again_after_a_shutdown(frontend):
    hvd = frontend.hvd
    rank = hvd.rank()
    for _ in range(2):
        hvd.shutdown()
        assert not hvd.is_initialized()
        raises(ValueError, "has not been initialized", hvd.rank)
        frontend.start()
        assert hvd.rank() == rank
        hvd.init()  # has no effect while a job runs
        total = hvd.allreduce(frontend.tensor(np.ones(1)), op=hvd.Sum)
        assert frontend.array(total) == hvd.size()
