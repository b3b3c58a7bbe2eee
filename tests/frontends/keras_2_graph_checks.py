# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow.keras in a graph of TensorFlow 1, as old scripts use it."""

from __future__ import annotations

import pathlib
import tempfile

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from conformance import raises
from horovod.common.exceptions import HorovodInternalError

tf.compat.v1.disable_eager_execution()

keras = tf.keras
K = tf.compat.v1.keras.backend
STEPS, ROWS = 4, 3


def start():
    """A new graph and session."""
    K.clear_session()
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.allow_growth = True
    config.gpu_options.visible_device_list = str(hvd.local_rank())
    K.set_session(tf.compat.v1.Session(config=config))


def data(of_all_ranks=False):
    numbers = np.random.RandomState(7)
    arrays = [numbers.randn(STEPS, hvd.size(), ROWS, n).astype("float32") for n in (5, 2)]
    if not of_all_ranks:
        arrays = [array[:, hvd.rank()] for array in arrays]
    return [array.reshape(-1, array.shape[-1]) for array in arrays]


def model(seed=0):
    net = keras.Sequential(
        [
            keras.layers.Dense(4, activation="tanh", input_shape=(5,)),
            keras.layers.BatchNormalization(trainable=False),
            keras.layers.Dense(2),
        ]
    )
    numbers = np.random.RandomState(seed)
    net.set_weights([np.abs(numbers.randn(*w.shape)) for w in net.get_weights()])
    return net


def fit(net, optimizer, of_all_ranks=False, rows=ROWS, **how):
    net.compile(loss="mse", optimizer=optimizer, metrics=["mae"])
    return net.fit(*data(of_all_ranks), batch_size=rows, shuffle=False, verbose=0, **how).history


def same_everywhere(values):
    flat = np.concatenate([np.ravel(value) for value in values])
    return all(np.array_equal(row, flat) for row in hvd.allgather(flat[None]))


def close(got, wanted, tolerance=2e-5):
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


class Watch(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rates, self.weights, self.momenta = [], [], []

    def on_batch_begin(self, batch, logs=None):
        if hasattr(self.model.optimizer, "momentum"):
            self.momenta.append(float(K.get_value(self.model.optimizer.momentum)))

    def on_batch_end(self, batch, logs=None):
        self.rates.append(float(K.get_value(self.model.optimizer.lr)))
        self.weights.append(self.model.get_weights()[0])


def check_a_script_of_the_time_of_sessions_trains(frontend):
    start()
    rate = 1.0 * hvd.size()
    net = model(seed=hvd.rank())
    optimizer = hvd.DistributedOptimizer(keras.optimizers.legacy.Adadelta(rate))
    watch = Watch()
    history = fit(
        net,
        optimizer,
        epochs=3,
        validation_data=data(),
        callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(
                initial_lr=rate, warmup_epochs=2, verbose=hvd.rank() == 0
            ),
            hvd.callbacks.LearningRateScheduleCallback(rate, multiplier=1e-1, start_epoch=2),
            watch,
        ],
    )
    assert same_everywhere(watch.weights) and same_everywhere(net.get_weights())
    assert same_everywhere(optimizer.get_weights()) and len(optimizer.get_weights()) > 4
    assert same_everywhere([np.array(history[name]) for name in sorted(history)])
    done = (np.arange(2 * STEPS) + 1) / STEPS
    wanted = rate * (done * (hvd.size() - 1) / 2 + 1) / hvd.size()
    np.testing.assert_allclose(watch.rates, [*wanted, *[rate] * STEPS], rtol=1e-5)
    np.testing.assert_allclose(history["lr"][1:], [rate, rate], rtol=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "checkpoint.h5")
        net.save(path)
        loaded = hvd.load_model(path)
    assert loaded.optimizer.__module__.startswith("horovod")
    close(loaded.get_weights(), net.get_weights())
    loaded.fit(*data(), batch_size=ROWS, shuffle=False, verbose=0)
    assert same_everywhere(loaded.get_weights())


def check_training_ends_with_the_weights_of_one_process(frontend):
    def sgd(rate=0.1):
        return keras.optimizers.legacy.SGD(rate, momentum=0.9)

    start()
    for passes in (1, 2):
        alone = model()
        fit(alone, sgd(), of_all_ranks=True, rows=passes * ROWS * hvd.size())
        net = model()
        optimizer = hvd.DistributedOptimizer(
            sgd(), backward_passes_per_step=passes, average_aggregated_gradients=True
        )
        fit(net, optimizer)
        assert int(K.get_value(optimizer.iterations)) == STEPS
        close(net.get_weights(), alone.get_weights())
    # Restoring a state drops the first pass of a step.
    state = hvd.elastic.KerasState(net, epoch=0)
    kept = net.get_weights()
    net.train_on_batch(*[array[:ROWS] for array in data()])
    state.restore()
    net.train_on_batch(*[array[:ROWS] for array in data()])
    close(net.get_weights(), kept, 0)
    net.train_on_batch(*[array[:ROWS] for array in data()])
    assert not np.allclose(net.get_weights()[0], kept[0])


def check_momentum_is_corrected_for_one_batch(frontend):
    start()
    watch = Watch()
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5**epoch)
    optimizer = keras.optimizers.legacy.SGD(0.1, momentum=0.9)
    fit(model(), hvd.DistributedOptimizer(optimizer), epochs=2, callbacks=[schedule, watch])
    wanted = [0.9] * STEPS + [0.45] + [0.9] * (STEPS - 1)
    np.testing.assert_allclose(watch.momenta, wanted, rtol=1e-6)


def check_values_go_round(frontend):
    start()
    size, rank = hvd.size(), hvd.rank()
    mean = (size - 1) / 2
    operations = len(tf.compat.v1.get_default_graph().get_operations())
    assert hvd.allreduce(float(rank)) == mean
    assert hvd.allreduce(np.float64([rank]), op=hvd.Sum).dtype == np.float64
    half = hvd.allreduce(np.float32([rank + 0.5]), compression=hvd.Compression.fp16)
    assert half.dtype == np.float32 and half.tolist() == [mean + 0.5]
    assert hvd.allgather(np.array([rank])).tolist() == list(range(size))
    assert hvd.broadcast(np.arange(3) + rank, 1).tolist() == [1, 2, 3]
    assert hvd.reducescatter(np.arange(2.0 * size), op=hvd.Sum).tolist() == [
        (2 * rank + i) * size for i in range(2)
    ]
    # Scripts do this after each epoch, so it must not add operations to the graph.
    assert len(tf.compat.v1.get_default_graph().get_operations()) == operations
    assert hvd.allreduce(tf.constant([float(rank)])).tolist() == [mean]
    variable = K.variable([float(rank)])
    hvd.broadcast_global_variables(1)
    assert K.get_value(variable).tolist() == [1.0]


def check_local_variables_and_their_slots_stay(frontend):
    start()
    net = model(seed=hvd.rank())
    net.compile(keras.optimizers.legacy.SGD(0.1, momentum=0.9), "mse")
    net.train_on_batch(*data())
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    optimizer = net.optimizer
    local = net.trainable_weights[0]
    callback.register_local_var(local)
    before = K.batch_get_value([local, optimizer.get_slot(local, "momentum")])
    callback.set_model(net)
    callback.on_batch_end(0)
    after = K.batch_get_value([local, optimizer.get_slot(local, "momentum")])
    assert all(np.array_equal(a, b) for a, b in zip(before, after))
    assert same_everywhere(net.get_weights()[1:]) and not same_everywhere(after[:1])
    raises(
        ValueError,
        "legacy.SGD",
        lambda: hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)),
    )


def check_fit_goes_on_from_the_last_commit(frontend):
    start()
    net = model(seed=hvd.rank())
    net.compile(hvd.DistributedOptimizer(keras.optimizers.legacy.Adam(0.1)), "mse")
    state = hvd.elastic.KerasState(net, epoch=0)
    starts = []

    @hvd.elastic.run
    def train(state):
        starts.append(state.epoch)
        assert same_everywhere(net.get_weights())
        while state.epoch < 2:
            net.fit(*data(), batch_size=ROWS, shuffle=False, verbose=0)
            if len(starts) == 1 and state.epoch == 1:
                if hvd.rank() == 1:
                    raise HorovodInternalError("something is wrong here")
                hvd.allreduce(np.ones(2), name="without rank 1")
            state.epoch += 1
            state.commit()

    train(state)
    assert starts == [0, 1] and same_everywhere(net.get_weights())
    assert int(K.get_value(net.optimizer.iterations)) == 2 * STEPS
