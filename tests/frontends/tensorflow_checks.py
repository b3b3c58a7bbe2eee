# SPDX-License-Identifier: Apache-2.0
"""Features of the TensorFlow front end only: graphs, sessions, tapes, optimizers, compilation."""

from __future__ import annotations

import json
import pathlib
import random
import tempfile
import threading
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from conformance import raises, ramp
from suite import Skip

v1 = tf.compat.v1
STEPS = 4


def total(*shape):
    return sum(ramp(rank, *shape) for rank in range(hvd.size())).astype(np.float32)


def mine(*shape):
    return tf.constant(ramp(hvd.rank(), *shape), tf.float32)


def equal(tensor, wanted):
    np.testing.assert_allclose(tensor.numpy() if hasattr(tensor, "numpy") else tensor, wanted, 1e-5)


# Graphs -----------------------------------------------------------------------------------------


def check_fifty_operations_run_in_any_order(frontend):
    # tensorflow_adapter.py gives TensorFlow two threads; kernels that wait would block the job.
    names = [f"any.{i}" for i in range(50)]
    random.Random(hvd.rank()).shuffle(names)

    @tf.function
    def reduce_all(x):
        return {name: hvd.allreduce(x + int(name[4:]), op=hvd.Sum, name=name) for name in names}

    for _ in range(3):
        for name, reduced in reduce_all(mine(3)).items():
            equal(reduced, total(3) + hvd.size() * int(name[4:]))


def check_loops_and_branches_reduce_each_time(frontend):
    names = [f"round.{i}" for i in range(10)]
    random.Random(hvd.rank()).shuffle(names)

    @tf.function
    def loop(x, rounds):
        sums = tf.zeros_like(x)
        for i in tf.range(rounds):
            for name in names:
                hvd.allreduce(x, name=name)
            sums += hvd.allreduce(x * tf.cast(i, x.dtype), op=hvd.Sum)
            hvd.allreduce(x, op=hvd.Sum)  # its result is not used, but all ranks run it
            if i % 2 == 1:
                sums += hvd.allreduce(x, op=hvd.Max)
        return sums

    wanted = total(4) * sum(range(10)) + 5 * ramp(hvd.size() - 1, 4)
    equal(loop(mine(4), tf.constant(10)), wanted)


def check_shapes_may_be_unknown(frontend):
    signature = [tf.TensorSpec(None, tf.float32)]

    @tf.function(input_signature=signature)
    def everything(x):
        reduced = hvd.allreduce(x, op=hvd.Sum)
        gathered = hvd.allgather(x)
        assert reduced.shape.rank is None and gathered.shape.rank is None
        return reduced, gathered, hvd.broadcast(x, 1), hvd.alltoall(x), hvd.reducescatter(x)

    for rows in (hvd.size(), 2 * hvd.size()):
        reduced, gathered, sent, parts, part = everything(mine(rows, 2))
        equal(reduced, total(rows, 2))
        equal(gathered, np.concatenate([ramp(r, rows, 2) for r in range(hvd.size())]))
        equal(sent, ramp(1, rows, 2))
        assert parts.shape == (rows, 2) and part.shape == (rows // hvd.size(), 2)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def known(x):
        assert hvd.allreduce(x).shape.as_list() == [None, 3]
        assert hvd.allgather(x).shape.as_list() == [None, 3]
        return hvd.grouped_allgather([x, x[:1]])

    assert known(mine(2, 3))[1].shape == (hvd.size(), 3)


def check_a_session_of_tensorflow_1_trains(frontend):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])
        reduced = hvd.allreduce(x, op=hvd.Sum)
        (gradient,) = tf.gradients(hvd.allgather(x) * 2.0, x)
        values = session.run(
            [reduced, gradient, hvd.size_op(), hvd.rank_op()], {x: ramp(hvd.rank(), 4)}
        )
        equal(values[0], total(4))
        equal(values[1], [2.0] * 4)
        assert values[2:] == [hvd.size(), hvd.rank()]

    with tf.Graph().as_default():
        w = v1.get_variable("w", initializer=tf.constant([1.0, 2.0]) * (hvd.rank() + 1))
        step = v1.train.get_or_create_global_step()
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.5))
        train = optimizer.minimize(tf.reduce_sum(w * (hvd.rank() + 1)), global_step=step)
        hooks = [hvd.BroadcastGlobalVariablesHook(1), v1.train.StopAtStepHook(3)]
        seen = []
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                seen.append(session.run([w, train])[0])
        assert len(seen) == 3
        mean = (hvd.size() + 1) / 2
        steps = {tuple(np.array([2.0, 4.0]) - 0.5 * n * mean) for n in range(4)}
        assert {tuple(values) for values in seen} <= steps, seen


def check_passes_add_up_before_ranks_meet(frontend):
    own = next(each for each in frontend.sets if each.included())  # has one rank in jobs of two
    for process_set, average in ((hvd.global_process_set, True), (own, False)):
        with tf.Graph().as_default(), v1.Session() as session:
            w = v1.get_variable("w", initializer=[10.0])
            step = v1.train.get_or_create_global_step()
            optimizer = hvd.DistributedOptimizer(
                v1.train.GradientDescentOptimizer(1.0),
                backward_passes_per_step=2,
                average_aggregated_gradients=average,
                process_set=process_set,
            )
            x = v1.placeholder(tf.float32, [1])
            train = optimizer.minimize(w * x, global_step=step)
            session.run(v1.global_variables_initializer())
            seen = []
            for i in range(4):
                session.run(train, {x: [hvd.rank() + i]})
                seen.append(session.run([w, step]))
            sums = 2 * np.mean(process_set.ranks) + np.array([1.0, 5.0])
            first, second = np.cumsum(sums / 2 if average else sums)
            equal([w[0] for w, _ in seen], [10, 10 - first, 10 - first, 10 - second])
            assert [step for _, step in seen] == [1, 2, 3, 4]


def some_local(rank, scale=1.0):
    """A loss with `rank` local variables and two shared ones; and these variables."""
    local = [v1.get_variable(f"local{i}", initializer=[1.0]) for i in range(rank)]
    shared = [v1.get_variable(f"shared{i}", initializer=[1.0]) for i in range(2)]
    loss = tf.add_n([tf.reduce_sum(v * scale) for v in 2 * (local + shared)])
    return loss, local, shared


def check_sessions_may_have_different_numbers_of_local_variables(frontend):
    rank, size = hvd.rank(), hvd.size()
    for passes in (1, 2):
        with tf.Graph().as_default(), v1.Session() as session:
            loss, local, shared = some_local(rank, rank + 1.0)
            optimizer = hvd.DistributedOptimizer(
                v1.train.GradientDescentOptimizer(1.0), backward_passes_per_step=passes
            )
            for variable in local:
                optimizer.register_local_var(variable)
            train = optimizer.minimize(loss)
            session.run(v1.global_variables_initializer())
            for _ in range(passes):
                session.run(train)
            step = passes * (size + 1)  # a variable is in the loss twice
            equal(session.run(shared), [[1.0 - step]] * 2)
            if local:
                equal(session.run(local), [[1.0 - 2 * passes * (rank + 1) / size]] * rank)
    if size & (size - 1):
        return
    with tf.Graph().as_default(), v1.Session() as session:
        loss, local, shared = some_local(rank)
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), op=hvd.Adasum)
        for variable in local:
            optimizer.register_local_var(variable)
        train = optimizer.minimize(loss)
        session.run(v1.global_variables_initializer())
        session.run(train)
        equal(session.run(shared), [[-1.0]] * 2)  # ranks agree on this step
        if local:
            equal(session.run(local), [[-1.0]] * rank)


def check_helpers_of_other_libraries_sum_up_passes(frontend):
    from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper as Helper
    from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager

    rank, size = hvd.rank(), hvd.size()
    reduce = hvd._make_allreduce_grads_fn(
        "helper", "", "", hvd.Compression.none, True, hvd.Average, 1.0, None
    )
    mean = (size + 1) / 2

    class Optimizer:  # the part of a Keras optimizer that the helper uses
        def __init__(self):
            self.iterations = tf.Variable(0)

    def steps(helper, run):
        optimizer, w, local = Optimizer(), tf.Variable([0.0, 0.0]), tf.Variable([0.0])
        helper.register_local_var(local)

        @run
        def step():
            slices = tf.IndexedSlices(tf.constant([rank + 1.0]), tf.constant([0]), [2])
            gradients = helper.compute_gradients((slices, None, tf.ones(1)), (w, w, local))
            assert gradients[1] is None

            def apply():
                w.assign_sub(gradients[0])
                local.assign_sub(gradients[2])
                optimizer.iterations.assign_add(1)

            pairs = zip(gradients, (w, w, local))
            helper.apply_gradients(apply, optimizer, pairs)

        for number in range(1, 5):
            step()
            done = number // 2
            equal(w, [-2.0 * done * mean, 0.0])
            equal(local, [-2.0 * done / size])
            assert optimizer.iterations.numpy() == number

    def make():
        return Helper(2, reduce, True, False, rank, Helper._OPTIMIZER_TYPE_KERAS, name="mine")

    steps(make(), lambda step: step)
    steps(make(), tf.function(autograph=False))  # autograph takes seconds here
    steps(LocalGradientAggregationHelperEager(2, reduce, True, False), lambda step: step)
    raises(ValueError, "_OPTIMIZER_TYPE_KERAS", Helper, 2, reduce, True, False, rank, "other")

    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=[0.0])
        step = v1.train.get_or_create_global_step()
        helper = Helper(
            2, reduce, False, True, rank, Helper._OPTIMIZER_TYPE_LEGACY, scale_local_gradients=False
        )
        helper.register_local_var(w)
        gradients = helper.compute_gradients([tf.ones(1) * (rank + 1)], [w])
        inner = v1.train.GradientDescentOptimizer(1.0)
        train = helper.apply_gradients(
            lambda: inner.apply_gradients(zip(gradients, [w]), step), inner, (), global_step=step
        )
        session.run(v1.global_variables_initializer())
        seen = []
        for _ in range(4):
            session.run(train)
            seen.append(session.run([w, step]))
        equal([w[0] for w, _ in seen], [0, -rank - 1, -rank - 1, -2 * (rank + 1)])
        assert [step for _, step in seen] == [1, 2, 3, 4]


def check_names_that_other_libraries_read_are_there(frontend):
    import types

    for module in (
        "compression",
        "elastic",
        "functions",
        "gradient_aggregation",
        "gradient_aggregation_eager",
        "mpi_ops",
        "sync_batch_norm",
        "util",
    ):
        assert isinstance(getattr(hvd, module), types.ModuleType), module
    assert hvd.tf is tf
    for eagerly in (hvd._executing_eagerly, hvd.util._executing_eagerly):
        assert eagerly() is True
        with tf.Graph().as_default():
            assert eagerly() is False
    assert hvd.util._has_eager is True
    calls = []
    keep = hvd.util._cache(lambda *args: calls.append(args) or len(calls))
    assert [keep(1), keep(1), keep(2)] == [1, 1, 2]
    assert hvd.util._make_subgraph(tf.executing_eagerly)().numpy() == False  # noqa: E712

    ops = hvd.mpi_ops
    assert ops._basics.rank() == hvd.rank() and ops.HorovodInternalError is hvd.HorovodInternalError
    assert ops.add_process_set is hvd.add_process_set and ops.broadcast_ is hvd.broadcast_
    assert ops.remove_process_set is hvd.remove_process_set
    assert ops.check_num_rank_power_of_2(4) and not ops.check_num_rank_power_of_2(3)
    assert ops.handle_average_backwards_compatibility(None, None) == hvd.Average
    assert ops._alltoall_grad.__code__
    equal(hvd._allreduce(mine(2)), total(2))
    equal(ops._allreduce(mine(2)), total(2))

    variable = tf.Variable([float(hvd.rank())])
    hvd._make_broadcast_group_fn()([variable], hvd.size() - 1)
    equal(variable, [hvd.size() - 1.0])
    reduce = hvd._make_allreduce_grads_fn("five", "", "", hvd.Compression.none, False)
    kept, none = reduce([mine(2), None], [variable, variable])
    assert none is None
    equal(kept, total(2) / hvd.size())
    evens, odds = frontend.sets
    own = evens if evens.included() else odds
    reduce = hvd._make_allreduce_grads_fn(
        "nine", "", "", hvd.Compression.none, False, hvd.Sum, 1.0, 1, own
    )
    in_graph = tf.function(autograph=False)(lambda x: reduce([x, 2 * x], [variable, variable]))
    equal(in_graph(mine(2))[1], 2 * sum(ramp(rank, 2) for rank in own.ranks))


def check_optimizers_of_tensorflow_1_are_known_by_their_class(frontend):
    inner = v1.train.AdamOptimizer()
    assert isinstance(inner, hvd._LegacyOptimizer)
    assert not isinstance(inner, hvd._DistributedOptimizer)
    for op in (hvd.Average, hvd.Adasum):
        assert isinstance(hvd.DistributedOptimizer(inner, op=op), hvd._DistributedOptimizer)


def check_adasum_combines_steps(frontend):
    if hvd.size() & (hvd.size() - 1):
        raises(NotImplementedError, "power of two", hvd.allreduce, mine(2), op=hvd.Adasum)
        return
    for passes in (1, 2):
        with tf.Graph().as_default(), v1.Session() as session:
            w = v1.get_variable("w", initializer=tf.zeros([hvd.size()]))
            inner = v1.train.GradientDescentOptimizer(1.0)
            optimizer = hvd.DistributedOptimizer(
                inner, op=hvd.Adasum, backward_passes_per_step=passes
            )
            # Orthogonal steps add up.
            loss = -w[hvd.rank()] * (hvd.rank() + 1)
            train = optimizer.minimize(loss)
            session.run(v1.global_variables_initializer())
            for _ in range(2 * passes):
                session.run(train)
            equal(session.run(w), 2 * passes * (np.arange(hvd.size()) + 1.0))


def check_compiled_functions_reduce(frontend):
    from horovod.tensorflow.library import xla_problem

    if xla_problem:
        raise Skip(xla_problem)

    @tf.function(jit_compile=True)
    def step(x):
        one = hvd.allreduce(x * 2, op=hvd.Sum)
        group = hvd.grouped_allreduce([one, tf.cast(x, tf.bfloat16)], op=hvd.Sum)
        sent = hvd.broadcast(x, 1, name="compiled.sent")
        return one, *group, sent, tf.gradients(one, x)[0]

    for _ in range(2):
        one, again, half, sent, gradient = step(mine(5))
        equal(one, 2 * total(5))
        equal(again, 2 * hvd.size() * total(5))
        equal(tf.cast(half, tf.float32), total(5))
        equal(sent, ramp(1, 5))
        equal(gradient, [2.0 * hvd.size()] * 5)

    @tf.function(jit_compile=True)
    def disagree(x):
        return hvd.allreduce(x, name="compiled.bad", prescale_factor=1.0 + hvd.rank())

    raises(tf.errors.InternalError, "Mismatched", disagree, mine(2))
    raises(
        NotImplementedError,
        "jit_compile=False",
        tf.function(hvd.allgather, jit_compile=True),
        mine(2),
    )


def check_failures_are_tensorflows_errors(frontend):
    @tf.function
    def disagree(x):
        return hvd.allreduce(x, name="graph.bad", op=[hvd.Sum, hvd.Max][hvd.rank() % 2])

    raises(tf.errors.FailedPreconditionError, "Mismatched", disagree, mine(2))

    @tf.function
    def wrong(x):
        return hvd.broadcast(x, hvd.size())

    raises(tf.errors.InvalidArgumentError, "root rank", wrong, mine(2))
    raises(tf.errors.AbortedError, "Sum or Average", hvd.reducescatter, mine(2), op=hvd.Min)
    if hvd.rank() == 0:
        with tf.Graph().as_default(), v1.Session() as session:
            # Two nodes with one name: the name is in use when the second one starts.
            twice = [
                hvd.allreduce(tf.ones(3), name=f"scope{i}/twice", ignore_name_scope=True)
                for i in range(2)
            ]
            assert twice[0].op.name != twice[1].op.name
            raises(tf.errors.InvalidArgumentError, "twice", session.run, twice)
    else:
        time.sleep(1)  # until then the first is in flight
        hvd.allreduce(tf.ones(3), name="twice")
    hvd.shutdown()
    raises(tf.errors.FailedPreconditionError, "has not been initialized", hvd.allreduce, tf.ones(1))
    raises(tf.errors.FailedPreconditionError, "has not been initialized", hvd.rank_op)
    frontend.start()


def check_a_rank_that_leaves_fails_what_is_in_flight(frontend):
    if hvd.rank() == 0:
        hvd.shutdown()
    else:
        raises(tf.errors.UnknownError, "Horovod", hvd.allreduce, mine(2), name="alone")
        hvd.shutdown()
    frontend.start()


def check_threads_reduce_side_by_side(frontend):
    results = {}

    def work(number):
        for step in range(5):
            x = mine(3) * number
            results[number, step] = hvd.allreduce(x, op=hvd.Sum, name=f"thread.{number}.{step}")

    threads = [threading.Thread(target=work, args=[n]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 40
    for (number, _), reduced in results.items():
        equal(reduced, total(3) * number)


def check_the_timeline_has_the_names_of_nodes(frontend):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "timeline.json"
        hvd.start_timeline(str(path))

        @tf.function
        def named(x):
            with tf.name_scope("tower"):
                return hvd.allreduce(x, name="loss"), hvd.allreduce(
                    x, name="bare", ignore_name_scope=True
                )

        named(mine(2))
        hvd.stop_timeline()
        if hvd.rank() == 0:
            names = {e.get("args", {}).get("name") for e in json.loads(path.read_text())}
            assert {"tower/loss", "bare"} <= names, names


# Sparse gradients and variables -----------------------------------------------------------------


def check_slices_are_gathered(frontend):
    rows = tf.IndexedSlices(mine(2, 3), tf.constant([hvd.rank(), 0]), dense_shape=[8, 3])
    for op, parts in ((hvd.Sum, 1), (hvd.Average, hvd.size())):
        gathered = hvd.allreduce(rows, op=op)
        assert isinstance(gathered, tf.IndexedSlices)
        wanted = np.zeros((8, 3))
        for rank in range(hvd.size()):
            np.add.at(wanted, [rank, 0], ramp(rank, 2, 3) / parts)
        equal(tf.convert_to_tensor(gathered), wanted)
    dense, sparse = hvd.grouped_allreduce([mine(2), rows], op=hvd.Sum)
    equal(dense, total(2))
    assert isinstance(sparse, tf.IndexedSlices)
    raises(NotImplementedError, "summed or averaged", hvd.allreduce, rows, op=hvd.Max)
    raises(NotImplementedError, "scaled", hvd.allreduce, rows, prescale_factor=2.0)
    assert hvd.grouped_allreduce([]) == []


def check_variables_become_the_roots(frontend):
    def make():
        dtypes = (tf.float32, tf.int64, tf.bfloat16, tf.bool)
        return [tf.Variable(tf.cast(ramp(hvd.rank(), 3) - 1, dtype)) for dtype in dtypes]

    wanted = (ramp(1, 3) - 1).astype(np.float32)

    def check(variables):
        for variable in variables:
            truth = wanted != 0 if variable.dtype == tf.bool else wanted
            equal(tf.cast(variable, tf.float32), truth)

    variables = make()
    assert hvd.broadcast_variables(variables, 1) is None
    check(variables)
    variables = make()
    check(hvd.broadcast_(variables, 1, name="inplace"))
    check(variables)
    variables = make()

    @tf.function
    def in_a_graph():
        hvd.broadcast_variables(variables, 1)

    in_a_graph()
    check(variables)
    raises(RuntimeError, "broadcast_variables", hvd.broadcast_global_variables, 0)


# Tapes ------------------------------------------------------------------------------------------


def data():
    """One batch for each rank, and a linear model to fit."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(hvd.size(), STEPS, 8, 3)).astype(np.float32)
    return x, x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 1


def train_alone():
    """The weights of one process that trains with the batches of all ranks."""
    x, y = data()
    w, b = tf.Variable(tf.zeros([3, 1])), tf.Variable(tf.zeros([1]))
    for step in range(STEPS):
        with tf.GradientTape() as tape:
            rows = tf.reshape(x[:, step], [-1, 3])
            loss = tf.reduce_mean((rows @ w + b - tf.reshape(y[:, step], [-1, 1])) ** 2)
        for variable, gradient in zip((w, b), tape.gradient(loss, (w, b))):
            variable.assign_sub(0.1 * gradient)
    return w.numpy(), b.numpy()


def train_by(make_tape, compiled=None):
    x, y = data()
    w, b = tf.Variable(tf.zeros([3, 1])), tf.Variable(tf.zeros([1]))

    def take_step(rows, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((rows @ w + b - wanted) ** 2)
        gradients = make_tape(tape).gradient(loss, (w, b))
        for variable, gradient in zip((w, b), gradients):
            variable.assign_sub(0.1 * gradient)

    if compiled is not None:
        take_step = tf.function(take_step, jit_compile=compiled)
    for step in range(STEPS):
        take_step(x[hvd.rank(), step], y[hvd.rank(), step])
    return w.numpy(), b.numpy()


def check_tapes_train_as_one_process_would(frontend):
    from horovod.tensorflow.library import xla_problem

    wanted = train_alone()
    makers = [
        hvd.DistributedGradientTape,
        lambda tape: hvd.DistributedGradientTape(tape, gradient_predivide_factor=2.0),
        lambda tape: hvd.DistributedGradientTape(tape, groups=1),
        hvd.PartialDistributedGradientTape,
    ]
    for make_tape in makers:
        for compiled in (None, False) if xla_problem else (None, False, True):
            for weights, alone in zip(train_by(make_tape, compiled), wanted):
                np.testing.assert_allclose(weights, alone, rtol=1e-4, atol=1e-5)
    halved = train_by(
        lambda tape: hvd.DistributedGradientTape(tape, compression=hvd.Compression.fp16)
    )
    np.testing.assert_allclose(halved[0], wanted[0], atol=1e-2)


def check_tapes_keep_local_sources(frontend):
    shared, local = tf.Variable([1.0]), tf.Variable([1.0])
    for scale, share in ((True, hvd.size()), (False, 1)):
        tape = tf.GradientTape(persistent=True)
        with tape:
            loss = (shared + local) * (hvd.rank() + 1)
        tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scale)
        tape.register_local_source(local)
        gradients = tape.gradient(loss, {"shared": shared, "local": [local]})
        equal(gradients["shared"], [(hvd.size() + 1) / 2])
        equal(gradients["local"][0], [(hvd.rank() + 1) / share])
        kept, reduced = tape.get_local_and_global_gradients(loss, [shared, local])
        assert kept[0][0] is local and reduced[0][0] is shared and len(kept) == len(reduced) == 1
    raises(
        ValueError,
        "layers",
        hvd.PartialDistributedGradientTape,
        tf.GradientTape(),
        local_layers=[1],
    )


def check_wrong_arguments_of_wrappers_are_named(frontend):
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    make = hvd.DistributedOptimizer
    raises(ValueError, "hvd.Average", make, optimizer, op=hvd.Sum, gradient_predivide_factor=2.0)
    raises(ValueError, "groups", make, optimizer, groups="all")
    raises(ValueError, "above 0", make, optimizer, backward_passes_per_step=0)
    raises(ValueError, "Adasum", make, optimizer, op=hvd.Adasum, average_aggregated_gradients=True)
    raises(ValueError, "optimizer has to be", make, object())
    assert make(optimizer)._name == "DistributedGradientDescentOptimizer"


def check_normalization_sees_every_batch(frontend):
    x = np.random.default_rng(3).normal(size=(hvd.size(), 6, 4)).astype(np.float32)
    raises(ValueError, "fused", hvd.SyncBatchNormalization, fused=True)
    synced = hvd.SyncBatchNormalization(momentum=0.5)
    plain = tf.keras.layers.BatchNormalization(momentum=0.5)
    inputs = tf.constant(x[hvd.rank()])
    whole = tf.constant(x.reshape(-1, 4))
    weights = tf.constant(np.arange(24.0).reshape(6, 4), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = synced(inputs, training=True)
        loss = tf.reduce_sum(output * weights)
    with tf.GradientTape() as tape_alone:
        tape_alone.watch(whole)
        output_alone = plain(whole, training=True)
        loss_alone = tf.reduce_sum(output_alone * tf.tile(weights, [hvd.size(), 1]))
    own = slice(6 * hvd.rank(), 6 * hvd.rank() + 6)
    np.testing.assert_allclose(output, output_alone[own], rtol=1e-4, atol=1e-5)
    equal(synced.moving_mean, plain.moving_mean)
    # The statistics are averages over the ranks, and so are their gradients.
    np.testing.assert_allclose(
        tape.gradient(loss, inputs),
        tape_alone.gradient(loss_alone, whole)[own],
        rtol=1e-3,
        atol=1e-3,
    )


# Elastic training -------------------------------------------------------------------------------


def check_training_goes_on_from_the_last_commit(frontend):
    w = tf.Variable([0.0])
    state = hvd.elastic.TensorFlowState(variables=[w], step=0)
    failures = []

    @hvd.elastic.run
    def train(state):
        while state.step < 6:
            if state.step == 4 and not failures:
                failures.append(state.step)
                if hvd.rank() == 1:
                    raise hvd.HorovodInternalError("something is wrong here")
            w.assign_add(hvd.allreduce(tf.ones([1]), op=hvd.Sum, name="step"))
            state.step += 1
            if state.step % 3 == 0:
                state.commit()
        return state.step

    assert train(state) == 6 and failures == [4]
    equal(w, [6.0 * hvd.size()])
    frontend.barrier("trained")
    hvd.shutdown()
    frontend.start()  # with its process sets


def check_sessions_go_on_from_the_last_commit_too(frontend):
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=[float(hvd.rank() + 1)])
        session.run(v1.global_variables_initializer())
        state = hvd.elastic.TensorFlowState(session=session, step=hvd.rank())
        state.sync()
        equal(session.run(w), [1.0])
        session.run(w.assign([5.0]))
        state.step = 7
        state.restore()
        equal(session.run(w), [1.0])
        assert state.step == 0
