# SPDX-License-Identifier: Apache-2.0
"""horovod.keras with the backends of Keras 3 other than TensorFlow."""

from __future__ import annotations

import pathlib
import tempfile
import types

import horovod.keras as hvd
import keras
import numpy as np
from conformance import raises
from horovod.common.exceptions import HorovodInternalError

STEPS, ROWS = 4, 3


def data(rank=None, steps=STEPS):
    """The images and labels of one rank, or of all ranks batch by batch."""
    numbers = np.random.RandomState(7)
    arrays = [numbers.randn(steps, hvd.size(), ROWS, n).astype("float32") for n in (5, 2)]
    if rank is not None:
        arrays = [array[:, rank] for array in arrays]
    return [array.reshape(-1, array.shape[-1]) for array in arrays]


def model(seed=0):
    net = keras.Sequential(
        [
            keras.layers.Input((5,)),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.Dense(2),
        ]
    )
    numbers = np.random.RandomState(seed)
    net.set_weights([numbers.randn(*w.shape).astype("float32") for w in net.get_weights()])
    return net


def sgd(rate=0.1, **how):
    return keras.optimizers.SGD(rate, momentum=0.9, **how)


def fit(net, optimizer, arrays, rows=ROWS, epochs=1, callbacks=(), **how):
    net.compile(optimizer=optimizer, loss=keras.losses.MeanSquaredError(), **how)
    arrays = [np.array(array) for array in arrays]
    return net.fit(
        *arrays, batch_size=rows, shuffle=False, verbose=0, epochs=epochs, callbacks=list(callbacks)
    )


def alone(optimizer, rows=None, **how):
    net = model()
    fit(net, optimizer, data(), rows or ROWS * hvd.size(), **how)
    return net.get_weights()


def same_everywhere(weights):
    flat = np.concatenate([np.ravel(w) for w in weights])
    return all(np.array_equal(row, flat) for row in hvd.allgather(flat[None]))


def close(got, wanted, tolerance=2e-5):
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def check_fit_ends_with_the_weights_of_one_process(frontend):
    wanted = alone(sgd())
    net = model()
    settings = [
        {},
        {"gradient_predivide_factor": 2.0, "groups": 2},
        {"groups": [net.trainable_variables[1:3]], "name": "mine"},
        {"compression": hvd.Compression.fp16},
    ]
    for setting in settings:
        net.set_weights(model().get_weights())
        fit(net, hvd.DistributedOptimizer(sgd(), **setting), data(hvd.rank()))
        assert same_everywhere(net.get_weights())
        close(net.get_weights(), wanted, 2e-2 if "compression" in setting else 2e-5)
    raises(ValueError, "negative", lambda: hvd.DistributedOptimizer(sgd(), groups=-1))


def check_large_gradients_come_through(frontend):
    """More data than a framework passes to a callback in one piece, many times."""
    net = keras.Sequential([keras.layers.Input((1000,)), keras.layers.Dense(1000)])
    arrays = [np.ones((20, 1000), "float32") * (hvd.rank() + 1)] * 2
    fit(net, hvd.DistributedOptimizer(sgd(1e-6)), arrays, 2)
    hvd.allreduce(0.0)


def check_passes_come_together_before_a_step(frontend):
    how = {"backward_passes_per_step": 2, "average_aggregated_gradients": True}
    if keras.backend.backend() == "jax":
        raises(ValueError, "JAX", lambda: hvd.PartialDistributedOptimizer(sgd(), **how))
        return
    net = model()
    optimizer = hvd.PartialDistributedOptimizer(sgd(), **how)
    fit(net, optimizer, data(hvd.rank()))
    assert int(optimizer.iterations) == STEPS
    close(net.get_weights(), alone(sgd(), 2 * ROWS * hvd.size()))


def check_an_infinity_on_one_rank_skips_the_step_of_all(frontend):
    scaling = keras.optimizers.LossScaleOptimizer
    around = scaling(hvd.DistributedOptimizer(sgd()), initial_scale=16.0)
    within = hvd.DistributedOptimizer(scaling(sgd(), initial_scale=16.0))
    for optimizer in (around, within):
        net = model()
        images, labels = data(hvd.rank())
        if hvd.rank() == 1:
            images[ROWS] = np.inf
        fit(net, optimizer, (images, labels))
        assert same_everywhere(net.get_weights()) and np.isfinite(net.get_weights()[0]).all()
        assert float(keras.ops.convert_to_numpy(optimizer.dynamic_scale)) == 8.0


def check_callbacks_see_and_change_what_the_step_uses(frontend):
    net = model(seed=hvd.rank())
    rate = 0.1 * hvd.size()
    optimizer = hvd.PartialDistributedOptimizer(sgd(rate), local_layers=[net.layers[-1]])
    rates = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            rates.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))

    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=1),
        Watch(),
    ]
    history = fit(net, optimizer, data(hvd.rank()), epochs=2, callbacks=callbacks).history
    assert same_everywhere(net.get_weights()[:2]) and not same_everywhere(net.get_weights()[2:])
    assert same_everywhere([np.array(history["loss"])])
    done = (np.arange(STEPS) + 1) / STEPS
    wanted = rate * (done * (hvd.size() - 1) + 1) / hvd.size()
    np.testing.assert_allclose(rates[:STEPS], wanted, rtol=1e-5)
    np.testing.assert_allclose(rates[STEPS:], rate, rtol=1e-5)


def check_momentum_is_corrected_when_the_rate_changes(frontend):
    arrays = data(steps=1)
    net = model()
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5**epoch)
    fit(net, sgd(0.1), arrays, 99, epochs=2, callbacks=[schedule])
    first, second = model(), model()
    fit(first, sgd(0.1), arrays, 99)
    second.set_weights(first.get_weights())
    fit(second, keras.optimizers.SGD(0.05), arrays, 99)
    velocity = [b - a for a, b in zip(model().get_weights(), first.get_weights())]
    close(net.get_weights(), [w + 0.45 * v for w, v in zip(second.get_weights(), velocity)])


def check_a_model_is_loaded_with_a_distributed_optimizer(frontend):
    net = model()
    fit(net, hvd.DistributedOptimizer(keras.optimizers.Adam(0.05)), data(hvd.rank()))
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "model.keras")
        net.save(path)
        loaded = hvd.load_model(path)
    for other in (loaded, net):
        images, labels = data(hvd.rank())
        other.fit(images, labels, batch_size=ROWS, shuffle=False, verbose=0)
    assert same_everywhere(loaded.get_weights())
    close(loaded.get_weights(), net.get_weights())


def check_values_go_round(frontend):
    mean = (hvd.size() - 1) / 2
    assert hvd.allreduce(float(hvd.rank())) == mean
    half = hvd.Compression.fp16
    assert hvd.allreduce(np.float32([hvd.rank() + 0.5]), compression=half)[0] == mean + 0.5
    got = hvd.broadcast(np.arange(3) + hvd.rank(), 1)
    assert got.tolist() == [1, 2, 3]
    # PyTorch returns tensors. JAX would turn float64 into float32, so it returns arrays.
    assert hasattr(got, "numpy") == (keras.backend.backend() == "torch")
    assert "float64" in str(hvd.allreduce(np.float64([0.1])).dtype)


def check_ranks_may_have_unequal_numbers_of_local_variables(frontend):
    optimizer = hvd.DistributedOptimizer(sgd(1.0), op=hvd.Sum, groups=2)
    shared = [keras.Variable(np.zeros(size, "float32")) for size in (2, 3)]
    local = [keras.Variable(np.zeros(4, "float32"))] if hvd.rank() == 0 else []
    for variable in local:
        optimizer.register_local_var(variable)
    variables = [*local, *shared]
    optimizer.apply([keras.ops.ones(variable.shape) for variable in variables], variables)
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    broadcast.set_model(types.SimpleNamespace(weights=variables, optimizer=optimizer))
    broadcast.on_batch_end(0)
    for variable in variables:
        step = 1 / hvd.size() if variable is variables[0] and local else hvd.size()
        assert np.all(keras.ops.convert_to_numpy(variable.value) == -step)


def check_fit_goes_on_from_the_last_commit(frontend):
    net = model(seed=hvd.rank())
    net.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss=keras.losses.MeanSquaredError())
    state = hvd.elastic.KerasState(net, epoch=0)
    starts = []

    @hvd.elastic.run
    def train(state):
        starts.append(state.epoch)
        while state.epoch < 2:
            fit_on = [np.array(array) for array in data(hvd.rank())]
            net.fit(*fit_on, batch_size=ROWS, shuffle=False, verbose=0)
            if len(starts) == 1 and state.epoch == 1:
                if hvd.rank() == 1:
                    raise HorovodInternalError("something is wrong here")
                hvd.allreduce(np.ones(2), name="without rank 1")
            state.epoch += 1
            state.commit()

    train(state)
    assert starts == [0, 1] and same_everywhere(net.get_weights())
    close(net.get_weights(), alone(sgd(), epochs=2))
