# SPDX-License-Identifier: Apache-2.0
"""horovod.keras and horovod.tensorflow.keras: training with model.fit, callbacks, files."""

from __future__ import annotations

import contextlib
import functools
import io
import pathlib
import pickle
import tempfile
import warnings

import horovod.keras as hvk
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
import tensorflow_matmul
from conformance import raises
from horovod import _keras
from horovod.tensorflow.library import xla_problem
from suite import Skip

keras = tf.keras
IS_KERAS_3 = hasattr(keras.optimizers.SGD, "apply")
# tf.keras may be another Keras than that of horovod.keras.
CALLBACKS = hvk.callbacks
if not issubclass(CALLBACKS.BestModelCheckpoint, keras.callbacks.Callback):
    CALLBACKS = hvd.callbacks

STEPS = 4
ROWS = 3  # per batch and rank


def shares(steps=STEPS):
    """Images and labels by step and rank."""
    numbers = np.random.RandomState(7)
    images = numbers.randn(steps, hvd.size(), ROWS, 5).astype("float32")
    labels = numbers.randn(steps, hvd.size(), ROWS, 2).astype("float32")
    return images, labels


def mine(steps=STEPS):
    return [array[:, hvd.rank()].reshape(-1, array.shape[-1]) for array in shares(steps)]


def of_all_ranks(steps=STEPS):
    return [array.reshape(-1, array.shape[-1]) for array in shares(steps)]


def model(seed=0, dtype=None):
    net = keras.Sequential(
        [
            keras.layers.Input((5,)),
            keras.layers.Dense(4, activation="tanh", dtype=dtype),
            keras.layers.Dense(2, dtype=dtype),
        ]
    )
    numbers = np.random.RandomState(seed)
    net.set_weights([numbers.randn(*w.shape) for w in net.get_weights()])
    return net


def fit(net, optimizer, data, rows, **how):
    fitting = {k: how.pop(k) for k in ("epochs", "callbacks", "initial_epoch") if k in how}
    net.compile(optimizer=optimizer, loss=keras.losses.MeanSquaredError(), **how)
    return net.fit(*data, batch_size=rows, shuffle=False, verbose=0, **fitting)


def sgd(rate=0.1, momentum=0.9):
    return keras.optimizers.SGD(rate, momentum=momentum)


def adam():
    return keras.optimizers.Adam(0.05)


class Watch(keras.callbacks.Callback):
    """Records weights, steps and learning rates after each batch."""

    def __init__(self):
        super().__init__()
        self.weights, self.steps, self.rates = [], [], []

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append(self.model.get_weights()[0])
        self.steps.append(int(self.model.optimizer.iterations))
        self.rates.append(float(self.model.optimizer.learning_rate.numpy()))


def trained_alone(make, steps=STEPS, rows=None, **how):
    net = model()
    fit(net, make(), of_all_ranks(steps), rows or ROWS * hvd.size(), **how)
    return net.get_weights()


def same_everywhere(weights):
    flat = np.concatenate([np.ravel(w) for w in weights])
    flat_of_all = hvd.allgather(flat[None])
    return all(np.array_equal(row, flat) for row in flat_of_all)


def close(got, wanted, tolerance=2e-5):
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# Training ---------------------------------------------------------------------------------------


def check_fit_ends_with_the_weights_of_one_process(frontend):
    for make in (sgd, adam):
        wanted = trained_alone(make)
        for how in ({"jit_compile": False}, {"run_eagerly": True}, {"steps_per_execution": 2}):
            net = model()
            fit(net, hvd.DistributedOptimizer(make()), mine(), ROWS, **how)
            assert same_everywhere(net.get_weights()), how
            close(net.get_weights(), wanted)
    assert not np.allclose(wanted[0], model().get_weights()[0])


def check_fit_with_every_setting_ends_with_the_same_weights(frontend):
    wanted = trained_alone(sgd)
    net = model()
    settings = [
        {"compression": hvd.Compression.bf16},
        {"gradient_predivide_factor": float(hvd.size()), "groups": 2},
        {"groups": [net.trainable_variables[:3]]},
        {"sparse_as_dense": True, "name": "mine"},
    ]
    for setting in settings:
        net.set_weights(model().get_weights())
        fit(net, hvd.DistributedOptimizer(sgd(), **setting), mine(), ROWS)
        assert same_everywhere(net.get_weights())
        close(net.get_weights(), wanted, 2e-2 if "compression" in setting else 2e-5)
    net.set_weights(model().get_weights())
    rate = 0.1 / hvd.size()
    fit(net, hvk.DistributedOptimizer(sgd(rate), op=hvk.Sum), mine(), ROWS)
    close(net.get_weights(), wanted)


def check_fit_compiled_by_xla_ends_with_the_same_weights(frontend):
    if xla_problem:
        raise Skip(xla_problem)
    net = model()
    fit(net, hvd.DistributedOptimizer(sgd()), mine(), ROWS, jit_compile=True)
    assert same_everywhere(net.get_weights())
    close(net.get_weights(), trained_alone(sgd))


def check_fit_with_jit_compile_auto_ends_with_the_same_weights(frontend):
    if not IS_KERAS_3:
        raise Skip("Keras 2 has no jit_compile='auto'")
    net = model()
    fit(net, hvd.DistributedOptimizer(sgd()), mine(), ROWS, jit_compile="auto")
    close(net.get_weights(), trained_alone(sgd))


def check_passes_come_together_before_a_step(frontend):
    """Two passes of one batch each are one step with both."""
    wanted = trained_alone(sgd, rows=2 * ROWS * hvd.size())
    for eagerly in (False, True):
        net = model()
        optimizer = hvd.DistributedOptimizer(
            sgd(), backward_passes_per_step=2, average_aggregated_gradients=True
        )
        watch = Watch()
        fit(net, optimizer, mine(), ROWS, callbacks=[watch], run_eagerly=eagerly)
        assert watch.steps == [1, 2, 3, 4]
        weights = watch.weights
        assert np.array_equal(weights[0], model().get_weights()[0])
        assert np.array_equal(weights[1], weights[2])
        assert not np.array_equal(weights[0], weights[1])
        assert same_everywhere(net.get_weights())
        close(net.get_weights(), wanted)
    net = model()
    optimizer = hvd.DistributedOptimizer(sgd(0.05), backward_passes_per_step=2)
    fit(net, optimizer, mine(), ROWS)
    close(net.get_weights(), wanted)


def check_optimizers_of_before_keras_2_11_are_distributed_too(frontend):
    if IS_KERAS_3:
        raise Skip("Keras 3 has no optimizers.legacy")

    def legacy():
        return keras.optimizers.legacy.SGD(0.1, momentum=0.9)

    for setting, rows in ({}, ROWS), ({"backward_passes_per_step": 2}, 2 * ROWS):
        net = model()
        optimizer = hvd.DistributedOptimizer(legacy(), average_aggregated_gradients=True, **setting)
        fit(net, optimizer, mine(), ROWS)
        assert int(optimizer.iterations) == STEPS and type(optimizer).__name__ == "SGD"
        close(net.get_weights(), trained_alone(legacy, rows=rows * hvd.size()))
    # Its momentum is a variable, which a schedule scales for one batch.
    momenta = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            momenta.append(float(self.model.optimizer.momentum.numpy()))

    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.5)
    fit(model(), legacy(), mine(), ROWS, epochs=2, callbacks=[schedule, Look()])
    np.testing.assert_allclose(momenta, [0.9] * STEPS + [0.45] + [0.9] * (STEPS - 1), rtol=1e-6)
    scaling = keras.mixed_precision.LossScaleOptimizer(legacy())
    net = model()
    fit(net, hvd.DistributedOptimizer(scaling), mine(), ROWS)
    close(net.get_weights(), trained_alone(legacy), 1e-4)
    raises(
        ValueError,
        "Keras 3",
        lambda: hvd.DistributedOptimizer(scaling, backward_passes_per_step=2),
    )


def embeddings():
    net = keras.Sequential([keras.layers.Input((2,)), keras.layers.Embedding(6, 3)])
    net.set_weights([np.random.RandomState(1).randn(6, 3)])
    words = np.random.RandomState(2).randint(0, 6, (hvd.size(), ROWS, 2))
    return net, words, np.ones((hvd.size(), ROWS, 2, 3), "float32")


def check_sparse_gradients_are_added_up(frontend):
    alone, words, targets = embeddings()
    data = words.reshape(-1, 2), targets.reshape(-1, 2, 3)
    fit(alone, sgd(1.0, 0.0), data, len(data[0]))
    for setting in ({}, {"sparse_as_dense": True}):
        net, *_ = embeddings()
        optimizer = hvd.DistributedOptimizer(sgd(1.0, 0.0), **setting)
        fit(net, optimizer, (words[hvd.rank()], targets[hvd.rank()]), ROWS)
        close(net.get_weights(), alone.get_weights())
    net, *_ = embeddings()
    optimizer = hvd.DistributedOptimizer(sgd(1.0, 0.0), backward_passes_per_step=2)
    raises(
        ValueError,
        "sparse_as_dense",
        lambda: fit(net, optimizer, (words[0], targets[0]), ROWS),
    )


def check_local_layers_are_trained_by_each_rank_alone(frontend):
    net = model(seed=hvd.rank())
    before = net.get_weights()
    optimizer = hvk.PartialDistributedOptimizer(sgd(), local_layers=net.layers[-1:])
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    fit(net, optimizer, mine(1), ROWS, callbacks=[broadcast])
    after = net.get_weights()
    assert same_everywhere(after[:2]) and not same_everywhere(after[2:])
    # The step of rank 0 with its own batch, divided by the number of ranks.
    alone = model(seed=hvd.rank())
    fit(alone, sgd(), mine(1), ROWS)
    step = [a - b for a, b in zip(alone.get_weights()[2:], before[2:])]
    close(after[2:], [b + s / hvd.size() for b, s in zip(before[2:], step)])

    net = model()
    optimizer = hvd.DistributedOptimizer(sgd(), scale_local_gradients=False)
    optimizer.register_local_var(net.trainable_variables[0])
    fit(net, optimizer, mine(1), ROWS)
    alone = model()
    fit(alone, sgd(), mine(1), ROWS)
    close(net.get_weights()[:1], alone.get_weights()[:1])
    raises(
        ValueError,
        "not a layer",
        lambda: hvk.PartialDistributedOptimizer(sgd(), local_layers=["dense"]),
    )


# Mixed precision --------------------------------------------------------------------------------


def check_an_infinity_on_one_rank_skips_the_step_of_all(frontend):
    """With the LossScaleOptimizer around the distributed optimizer, and inside of it."""
    scaling = keras.optimizers if IS_KERAS_3 else keras.mixed_precision
    wraps = [
        lambda: scaling.LossScaleOptimizer(hvd.DistributedOptimizer(sgd()), initial_scale=16.0),
        lambda: hvd.DistributedOptimizer(scaling.LossScaleOptimizer(sgd(), initial_scale=16.0)),
    ]
    for wrap in wraps:
        net = model()
        optimizer = wrap()
        images, labels = mine()
        if hvd.rank() == 1:
            images[ROWS] = np.inf  # in the second step
        watch = Watch()
        fit(net, optimizer, (images, labels), ROWS, callbacks=[watch])
        first, second, third, _ = watch.weights
        assert np.array_equal(first, second) and not np.array_equal(second, third)
        assert same_everywhere(net.get_weights()) and np.isfinite(net.get_weights()[0]).all()
        scale = optimizer.dynamic_scale if IS_KERAS_3 else optimizer.loss_scale
        assert float(scale.numpy()) == 8.0


def check_mixed_policies_train(frontend):
    for policy in ("mixed_float16", "mixed_bfloat16"):
        if policy == "mixed_bfloat16":
            tensorflow_matmul.skip_if_it_dies()
        keras.mixed_precision.set_global_policy(policy)
        try:
            net = model()
            fit(net, hvd.DistributedOptimizer(sgd(0.01)), mine(), ROWS)
            wanted = trained_alone(lambda: sgd(0.01))
        finally:
            keras.mixed_precision.set_global_policy("float32")
        assert same_everywhere(net.get_weights())
        assert not np.array_equal(net.get_weights()[0], model().get_weights()[0])
        if policy == "mixed_bfloat16":  # mixed_float16 skips steps until it has found its scale
            close(net.get_weights(), wanted, 0.02)


# Configuration and files ------------------------------------------------------------------------


def is_distributed(optimizer):
    return hasattr(optimizer, "register_local_var")


def check_a_distributed_optimizer_keeps_its_class_name_and_configuration(frontend):
    plain = adam()
    optimizer = hvd.DistributedOptimizer(plain, groups=2)
    assert isinstance(optimizer, type(plain)) and type(optimizer).__name__ == "Adam"
    assert optimizer.get_config() == plain.get_config() and not is_distributed(plain)
    again = type(optimizer).from_config(optimizer.get_config())
    assert is_distributed(again) and again._hvd_settings.groups == 2
    saved = keras.optimizers.serialize(optimizer)
    restored = keras.optimizers.deserialize(saved)
    assert type(restored).__name__ == "Adam" and restored.get_config() == plain.get_config()
    raises(ValueError, "hvd.Average", lambda: hvd.DistributedOptimizer(adam(), op=2))
    raises(
        ValueError,
        "gradient_predivide_factor",
        lambda: hvd.DistributedOptimizer(adam(), op=hvd.Sum, gradient_predivide_factor=2.0),
    )
    raises(
        ValueError,
        "backward_passes_per_step",
        lambda: hvd.DistributedOptimizer(adam(), backward_passes_per_step=0),
    )
    raises(ValueError, "negative", lambda: hvd.DistributedOptimizer(adam(), groups=-1))


def check_a_distributed_optimizer_says_that_it_is_of_horovod(frontend):
    """The ways in which programs test whether an optimizer is distributed."""
    optimizer = hvd.DistributedOptimizer(adam())
    assert optimizer.__module__.startswith("horovod")
    assert "horovod._keras" in str(optimizer) and "horovod" in str(optimizer.__class__)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert hvd.DistributedOptimizer(optimizer, groups=2) is optimizer
    assert [str(warning.message).count("already") for warning in said] == [1]
    made = _keras.create_distributed_optimizer(
        *(keras, adam(), "mine", "", "", hvd.Compression.none, True, 1.0, hvd.Sum, 2)
    )
    assert made._hvd_settings.groups == 2 and made.__module__.startswith("horovod")
    assert _keras._PRE_TF_2_4_0 is False


def check_variables_are_an_attribute_and_a_method(frontend):
    optimizer = hvd.DistributedOptimizer(adam())
    optimizer.build(model().trainable_variables)
    assert len(optimizer.variables) == len(optimizer.variables()) > 8
    frontend.hvd.broadcast_variables(optimizer.variables(), root_rank=0)


def check_private_methods_can_be_replaced_in_one_optimizer(frontend):
    for name in ("_allreduce", "_allreduce_grads"):
        optimizer = hvd.DistributedOptimizer(sgd(1.0, 0.0), op=hvd.Sum)
        plain = getattr(optimizer, name)
        setattr(optimizer, name, lambda grads, vars, f=plain: [10 * g for g in f(grads, vars)])
        weight = keras.Variable([0.0]) if IS_KERAS_3 else tf.Variable([0.0])
        optimizer.apply_gradients([(tf.constant([hvd.rank() + 1.0]), weight)])
        total = sum(rank + 1 for rank in range(hvd.size()))
        assert weight.numpy() == -10 * total, name
    optimizer = hvd.DistributedOptimizer(sgd(1.0, 0.0), op=hvd.Sum)
    ones = [tf.ones(1)]
    assert optimizer._allreduce_grads(ones, [weight], use_generic_names=True)[0] == hvd.size()
    ready = optimizer._allreduce(ones, [weight])
    optimizer.apply_gradients(zip(ready, [weight]))  # does not reduce them again
    assert weight.numpy() == -10 * total - hvd.size()


@keras.utils.register_keras_serializable("tests")
class Registered(keras.optimizers.SGD):
    """An optimizer that is registered with Keras."""


class Own(keras.optimizers.SGD):
    """An optimizer that is not registered with Keras."""


def check_a_model_is_loaded_with_a_distributed_optimizer(frontend):
    cases = [(adam, "keras"), (adam, "h5")]
    cases += [(functools.partial(cls, 0.1, momentum=0.9), "keras") for cls in (Own, Registered)]
    for make, kind in cases:
        net = model()
        fit(net, hvd.DistributedOptimizer(make()), mine(), ROWS)
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / f"model.{kind}")
            net.save(path)
            loaded = hvd.load_model(path, custom_optimizers=[Own])
            plain = keras.models.load_model(path, custom_objects={"Own": Own})
        assert is_distributed(loaded.optimizer) and not is_distributed(plain.optimizer)
        assert type(loaded.optimizer).__name__ == type(net.optimizer).__name__
        assert int(loaded.optimizer.iterations) == STEPS
        for other, data, rows in ((loaded, mine(), ROWS), (net, mine(), ROWS)):
            other.fit(*data, batch_size=rows, shuffle=False, verbose=0)
        assert same_everywhere(loaded.get_weights())
        close(loaded.get_weights(), net.get_weights())
        if kind == "keras":  # Keras 3 itself cannot resume from the other format
            plain.fit(*of_all_ranks(), batch_size=ROWS * hvd.size(), shuffle=False, verbose=0)
            close(plain.get_weights(), net.get_weights(), 1e-4)


def check_load_model_is_pickled_by_its_name(frontend):
    for module in (hvd, hvk):
        assert pickle.loads(pickle.dumps(module.load_model)) is module.load_model


# Callbacks --------------------------------------------------------------------------------------


def check_the_first_batch_ends_with_the_weights_of_the_root(frontend):
    net = model(seed=hvd.rank())
    optimizer = hvd.DistributedOptimizer(sgd())
    alone = model(seed=1)
    fit(alone, sgd(), [array[: ROWS * hvd.size()] for array in of_all_ranks()], ROWS * hvd.size())
    fit(net, optimizer, mine(), ROWS, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(1)])
    assert same_everywhere(net.get_weights())
    variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    assert same_everywhere([v.numpy() for v in variables])

    net = model(seed=hvd.rank())
    net.compile(optimizer="sgd", loss="mse")
    local = net.trainable_variables[0]
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=[local])
    callback.set_model(net)
    callback.on_batch_end(0)
    assert not same_everywhere([local.numpy()]) and same_everywhere(net.get_weights()[1:])
    net.set_weights(model(seed=hvd.rank()).get_weights())
    callback.on_batch_end(1)  # only once
    assert not same_everywhere(net.get_weights()[1:])

    callback = CALLBACKS.BroadcastGlobalVariablesCallback(0)
    replaced = []
    plain = callback.on_batch_end
    callback.on_batch_end = lambda batch, logs=None: (replaced.append(batch), plain(batch, logs))
    net.fit(*mine(), batch_size=ROWS, verbose=0, callbacks=[callback])
    assert replaced == list(range(STEPS)) and callback.broadcast_done


def check_metrics_are_averaged_over_ranks(frontend):
    callback = hvd.callbacks.MetricAverageCallback()
    logs = {"loss": float(hvd.rank()), "accuracy": np.float32(hvd.rank() + 1), "name": "x"}
    callback.on_epoch_end(0, logs)
    mean = (hvd.size() - 1) / 2
    assert logs == {"loss": mean, "accuracy": mean + 1, "name": "x"}
    callback.on_epoch_end(0, None)
    net = model()
    net.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss="mse", metrics=["mae"])
    history = net.fit(
        *mine(), batch_size=ROWS, verbose=0, validation_data=mine(), callbacks=[callback]
    ).history
    assert {"loss", "mae", "val_loss", "val_mae"} <= set(history)
    values = np.array([history[name] for name in sorted(history)])
    assert same_everywhere([values])


def rates(callback, epochs):
    """The learning rate of each batch, and the rates that the callback reports."""
    watch = Watch()
    history = fit(model(), sgd(1e-3), mine(), ROWS, epochs=epochs, callbacks=[callback, watch])
    return np.array(watch.rates).reshape(epochs, STEPS), history.history["lr"]


def check_learning_rates_follow_their_schedule(frontend):
    schedule = hvd.callbacks.LearningRateScheduleCallback
    got, reported = rates(schedule(0.8, 0.5, start_epoch=1, end_epoch=3), 4)
    np.testing.assert_allclose(got[:, 0], [1e-3, 0.8, 0.4, 0.4], rtol=1e-6)
    assert (got == got[:, :1]).all()
    np.testing.assert_allclose(reported, got[:, -1], rtol=1e-6)
    got, _ = rates(schedule(0.8, lambda epoch: 1 / (1 + epoch), staircase=False), 2)
    batches = np.arange(2 * STEPS).reshape(2, STEPS) / STEPS
    np.testing.assert_allclose(got, 0.8 / (1 + batches), rtol=1e-6)
    raises(ValueError, "initial_lr", schedule, None, 0.5)


def check_warm_up_leads_from_the_rate_of_one_rank_to_that_of_all(frontend):
    size = hvd.size()
    said = io.StringIO()
    callback = CALLBACKS.LearningRateWarmupCallback(0.4, warmup_epochs=2, verbose=1)
    with contextlib.redirect_stdout(said):
        got, _ = rates(callback, 3)
    done = (np.arange(2 * STEPS) + 1) / STEPS  # epochs, including the batch itself
    wanted = 0.4 * (done * (size - 1) / 2 + 1) / size
    np.testing.assert_allclose(got[:2].ravel(), wanted, rtol=1e-6)
    np.testing.assert_allclose(got[1:, -1], [0.4, 0.4], rtol=1e-6)
    assert "Epoch 2" in said.getvalue() and "0.4" in said.getvalue()


def check_momentum_is_corrected_when_the_rate_changes(frontend):
    """velocity = momentum * new / old * velocity - new * gradient."""

    def trained(correct):
        net = model()
        callback = hvd.callbacks.LearningRateScheduleCallback(
            0.1, lambda epoch: 0.5**epoch, momentum_correction=correct
        )
        fit(net, sgd(0.1), of_all_ranks(1), 99, epochs=2, callbacks=[callback])
        return net.get_weights()

    first = model()
    fit(first, sgd(0.1), of_all_ranks(1), 99)
    start, middle = model().get_weights(), first.get_weights()
    velocity = [b - a for a, b in zip(start, middle)]
    plain = model()
    plain.set_weights(middle)
    fit(plain, sgd(0.05, 0.0), of_all_ranks(1), 99)  # the part of the gradient
    for correct, factor in ((True, 0.45), (False, 0.9)):
        wanted = [w + factor * v for w, v in zip(plain.get_weights(), velocity)]
        close(trained(correct), wanted)


def check_the_best_model_is_kept(frontend):
    with tempfile.TemporaryDirectory() as folder:
        path = str(
            pathlib.Path(folder) / "best.h5"
        )  # the ModelCheckpoint of Keras 2.13 supports this
        best = CALLBACKS.BestModelCheckpoint(monitor="loss")
        net = model()
        net.compile(optimizer="sgd", loss="mse")
        raises(ValueError, "filepath", lambda: net.fit(*mine(), verbose=0, callbacks=[best]))
        best.filepath = path
        weights = []

        class Spoil(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                weights.append(self.model.get_weights()[0])
                logs["loss"] = [2.0, 1.0, 3.0][epoch]

        net.fit(*mine(), verbose=0, epochs=3, callbacks=[Spoil(), best])
        kept = keras.models.load_model(path, compile=False).get_weights()[0]
        assert np.array_equal(kept, weights[1]) and not np.array_equal(kept, weights[2])
    hvd.callbacks.BestModelCheckpoint(save_weights_only=True, mode="min", save_freq=3)


# Values and names -------------------------------------------------------------------------------


def check_values_go_round(frontend):
    size, rank = hvd.size(), hvd.rank()
    mean = (size - 1) / 2
    for module in (hvd, hvk):
        assert module.allreduce(float(rank)).numpy() == mean
        assert module.allreduce(float(rank)).dtype == tf.float32
        assert module.allreduce(np.float32([rank]), name="v", op=module.Sum)[0] == mean * size
        assert module.allreduce([rank + 0.5], compression=module.Compression.fp16)[0] == mean + 0.5
        assert (
            module.allreduce([float(rank)], prescale_factor=2.0, postscale_factor=3.0) == 6 * mean
        )
        got = module.allgather(np.full((rank + 1, 2), rank)).numpy()
        assert got[:, 0].tolist() == [r for r in range(size) for _ in range(r + 1)]
        assert module.broadcast([rank, 5], 1).numpy().tolist() == [1, 5]
        assert module.broadcast(tf.Variable([rank]), 1).numpy() == 1
        got = module.reducescatter(np.arange(2.0 * size) + rank, op=module.Sum).numpy()
        assert got.tolist() == [(2 * rank + i + mean) * size for i in range(2)]
    assert hvk.allreduce(np.float64(rank), average=False) == mean * size
    raises(TypeError, "horovod.tensorflow", tf.function(hvd.allreduce), tf.ones(1))
    raises(RuntimeError, "graphs only", hvd.broadcast_global_variables, 0)
    raises(RuntimeError, "graphs only", hvk.broadcast_global_variables, 0)


def check_both_modules_have_their_names(frontend):
    basics = (
        "init shutdown is_initialized start_timeline stop_timeline size local_size rank local_rank "
        "mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built ddl_built "
        "ccl_built cuda_built rocm_built Compression callbacks elastic allreduce allgather "
        "broadcast broadcast_global_variables load_model DistributedOptimizer Average Sum"
    )
    for module in (hvd, hvk):
        assert [name for name in basics.split() if not hasattr(module, name)] == []
    assert hvk.Adasum == 2 and hvk.global_process_set is hvd.global_process_set
    assert hvd.ProcessSet and hvd.add_process_set and hvd.remove_process_set


# Elastic ----------------------------------------------------------------------------------------


def check_fit_goes_on_from_the_last_commit(frontend):
    net = model(seed=hvd.rank())
    optimizer = hvd.DistributedOptimizer(adam())
    net.compile(optimizer=optimizer, loss="mse")
    state = hvd.elastic.KerasState(net, batch=0, epoch=0)
    starts, epochs = [], 3

    class Fail(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if len(starts) == 1 and state.epoch == 1 and batch == 2 and hvd.rank() == 1:
                raise frontend.hvd.HorovodInternalError("something is wrong here")

    @hvd.elastic.run
    def train(state):
        starts.append((state.epoch, state.batch))
        assert same_everywhere(net.get_weights())
        net.fit(
            *mine(),
            batch_size=ROWS,
            shuffle=False,
            verbose=0,
            epochs=epochs - state.epoch,
            callbacks=[
                Fail(),
                hvd.elastic.UpdateEpochStateCallback(state),
                hvd.elastic.UpdateBatchStateCallback(state),
                hvd.elastic.CommitStateCallback(state, batches_per_commit=99),
            ],
        )

    train(state)
    # Restore the state at the end of the first epoch.
    assert starts == [(0, 0), (1, 0)] and state.epoch == epochs and state.batch == 0
    assert same_everywhere(net.get_weights())
    close(net.get_weights(), trained_alone(adam, epochs=epochs), 1e-4)
    frontend.barrier("trained")
    frontend.hvd.shutdown()
    frontend.start()
    if not IS_KERAS_3:
        return
    raises(ValueError, "build", hvd.elastic.KerasState, keras.Sequential([keras.layers.Dense(1)]))


def check_elastic_callbacks_count_epochs_and_batches(frontend):
    class Diary:
        epoch, batch, commits = 2, 3, 0

        def commit(self):
            self.commits += 1

    state = Diary()
    batches = hvd.elastic.UpdateBatchStateCallback(state)
    epochs = hvk.elastic.UpdateEpochStateCallback(state)
    commits = hvd.elastic.CommitStateCallback(state, batches_per_commit=2)
    for callback in (batches, epochs, commits):
        callback.set_params({"steps": 10})
        callback.on_train_begin()
    batches.on_epoch_begin(0)
    assert batches.params["steps"] == 7
    for batch in range(5):
        batches.on_batch_end(batch)
        commits.on_batch_end(batch)
    assert (state.batch, state.commits) == (4, 2)
    for callback in (batches, epochs, commits):
        callback.on_epoch_end(0)
    assert (state.batch, state.epoch, state.commits) == (0, 3, 3)
    batches.on_epoch_begin(1)
    assert batches.params["steps"] == 10
