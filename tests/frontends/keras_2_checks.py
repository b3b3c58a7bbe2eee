# SPDX-License-Identifier: Apache-2.0
"""Optimizers of Keras 2, as code for Horovod 0.28 uses them."""

from __future__ import annotations

import pathlib
import tempfile
import types

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

keras = tf.keras
KINDS = (keras.optimizers, keras.optimizers.legacy)


def total():
    """The sum of rank + 1 over all ranks."""
    return sum(r + 1 for r in range(hvd.size()))


def loss_of(*variables):
    """Its gradient is rank + 1 for each variable."""
    return lambda: sum(tf.reduce_sum(v) for v in variables) * float(hvd.rank() + 1)


def check_gradients_are_reduced_when_computed_and_not_when_applied(frontend):
    """Uses op=Sum: a second reduction changes a sum, but not an average."""
    for kind in KINDS:
        optimizer = hvd.DistributedOptimizer(kind.SGD(1.0), op=hvd.Sum)
        weight = tf.Variable([0.0, 0.0])

        def step(optimizer=optimizer, weight=weight):
            pairs = optimizer._compute_gradients(loss_of(weight), [weight])
            optimizer.apply_gradients([(gradient * 1.0, v) for gradient, v in pairs])

        step()
        assert weight.numpy().tolist() == [-total()] * 2, kind
        tf.function(step)()
        assert weight.numpy().tolist() == [-2 * total()] * 2, kind
        # The gradients of a plain tape stay those of this rank, before and after.
        with tf.GradientTape() as tape:
            loss = loss_of(weight)()
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
        assert weight.numpy().tolist() == [-3 * total()] * 2, kind
        optimizer.minimize(loss_of(weight), [weight])
        assert weight.numpy().tolist() == [-4 * total()] * 2, kind
        assert int(optimizer.iterations) == 4
        # Inspecting an optimizer does not affect functions that are traced later.
        optimizer._compute_gradients(loss_of(weight), [weight])

        @tf.function
        def apply(gradient, optimizer=optimizer, weight=weight):
            optimizer.apply_gradients([(gradient, weight)])

        apply(tf.fill([2], float(hvd.rank() + 1)))
        assert weight.numpy().tolist() == [-5 * total()] * 2, kind


def check_computed_gradients_know_tapes_and_weights_of_the_loss(frontend):
    for kind in KINDS:
        optimizer = hvd.DistributedOptimizer(kind.SGD(1.0))
        weight = tf.Variable([0.0, 0.0])
        with tf.GradientTape() as tape:
            loss = weight * float(hvd.rank() + 1)
        ((gradient, variable),) = optimizer._compute_gradients(
            loss, [weight], grad_loss=tf.constant([1.0, 3.0]), tape=tape
        )
        mean = total() / hvd.size()
        assert variable is weight and gradient.numpy().tolist() == [mean, 3 * mean]


def check_computed_gradients_of_several_passes_come_together(frontend):
    for kind in KINDS:
        optimizer = hvd.DistributedOptimizer(kind.SGD(1.0), backward_passes_per_step=2)
        weight = tf.Variable([0.0])
        got = []
        for step in (lambda f: f, tf.function):

            def run(optimizer=optimizer, weight=weight):
                pairs = optimizer._compute_gradients(loss_of(weight), [weight])
                optimizer.apply_gradients(pairs)

            one = step(run)
            for _ in range(2):
                one()
                got.append(float(weight.numpy()[0]))
        mean = 2 * total() / hvd.size()
        assert got == [0, -mean, -mean, -2 * mean] and int(optimizer.iterations) == 4


def check_computed_gradients_of_local_variables_stay(frontend):
    for kind in KINDS:
        optimizer = hvd.DistributedOptimizer(kind.SGD(1.0), op=hvd.Sum, scale_local_gradients=False)
        shared, local = tf.Variable([0.0]), tf.Variable([0.0])
        optimizer.register_local_var(local)
        pairs = optimizer._compute_gradients(loss_of(shared, local), [shared, local])
        optimizer.apply_gradients(pairs)
        assert (shared.numpy(), local.numpy()) == (-total(), -(hvd.rank() + 1))


def check_ranks_broadcast_with_unequal_numbers_of_local_variables(frontend):
    for kind in KINDS:
        optimizer = kind.SGD(1.0, momentum=0.9)
        local = [tf.Variable(tf.ones(3))] if hvd.rank() == 0 else []
        shared = tf.Variable([float(hvd.rank())])
        callback = hvd.callbacks.BroadcastGlobalVariablesCallback(1)
        for variable in local:
            callback.register_local_var(variable)
        variables = [*local, shared]
        optimizer.apply_gradients([(tf.ones_like(v), v) for v in variables])
        callback.set_model(types.SimpleNamespace(weights=variables, optimizer=optimizer))
        callback.on_batch_end(0)
        assert [v.numpy()[0] for v in variables] == [0.0] * len(variables)


def check_computed_gradients_may_be_rows(frontend):
    for kind in KINDS:
        optimizer = hvd.DistributedOptimizer(kind.SGD(1.0), op=hvd.Sum)
        table = tf.Variable(tf.zeros([hvd.size() + 1, 2]))

        def rows(table=table):
            return tf.reduce_sum(tf.gather(table, [0, hvd.rank() + 1]))

        pairs = optimizer._compute_gradients(rows, [table])
        assert isinstance(pairs[0][0], tf.IndexedSlices)
        optimizer.apply_gradients(pairs)
        assert table.numpy()[:, 0].tolist() == [-hvd.size()] + [-1.0] * hvd.size()


def check_an_infinity_in_computed_gradients_skips_the_step_of_all(frontend):
    for kind in KINDS:
        scaling = keras.mixed_precision.LossScaleOptimizer(kind.SGD(1.0), initial_scale=16.0)
        optimizer = hvd.DistributedOptimizer(scaling)
        assert optimizer.__module__.startswith("horovod")
        again = type(optimizer).from_config(optimizer.get_config())
        for tried in (optimizer, again):
            weight = tf.Variable([0.0])
            for of_rank_1, wanted in ((np.inf, 0.0), (1.0, -total() / hvd.size())):
                factor = of_rank_1 if hvd.rank() == 1 else 1.0

                def loss(weight=weight, factor=factor):
                    return loss_of(weight)() * factor

                pairs = tried._compute_gradients(loss, [weight])
                tried.apply_gradients(pairs)
                assert weight.numpy() == wanted, (kind, factor)
            assert float(tried.loss_scale.numpy()) == 8.0


def check_private_methods_can_be_replaced_in_one_optimizer(frontend):
    for kind in KINDS:
        for name in ("_allreduce", "_allreduce_grads"):
            optimizer = hvd.DistributedOptimizer(kind.SGD(1.0), op=hvd.Sum)
            plain = getattr(optimizer, name)
            setattr(optimizer, name, lambda grads, vars, f=plain: [10 * g for g in f(grads, vars)])
            weight = tf.Variable([0.0])
            optimizer.apply_gradients([(tf.constant([hvd.rank() + 1.0]), weight)])
            assert weight.numpy() == -10 * total(), (kind, name)
            got = optimizer._compute_gradients(loss_of(weight), [weight])
            assert got[0][0].numpy() == 10 * total(), (kind, name)


def check_saved_models_name_the_class_of_keras(frontend):
    for kind in KINDS:
        net = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        net.compile(hvd.DistributedOptimizer(kind.Adam(0.1)), "mse")
        assert type(net.optimizer).__module__ == "horovod._keras"
        assert "horovod._keras" in str(net.optimizer)
        net.fit(np.ones((2, 2)), np.ones((2, 1)), verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            for ending in ("keras", "h5"):
                path = str(pathlib.Path(folder) / f"model.{ending}")
                net.save(path)
                plain = keras.models.load_model(path).optimizer
                loaded = hvd.load_model(path).optimizer
                assert type(plain).__name__ == type(loaded).__name__ == "Adam"
                assert not plain.__module__.startswith("horovod")
                assert loaded.__module__.startswith("horovod")
                # Keras does not save the state of old optimizers in its new format.
                is_lost = ending == "keras" and kind is keras.optimizers.legacy
                wanted = 0 if is_lost else 1
                assert int(loaded.iterations) == int(plain.iterations) == wanted
