# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow: the cost of an operation in a graph, and the overhead of the optimizer.

tensorflow_steps.py RANKS ROUNDS

Prints one JSON object per scenario, one figure per round in microseconds: 1,000 allreduces of 1 KiB
in one tf.function (per tensor, on the slowest rank) and the same graph with tf.identity; and a step
of Keras' fit on one rank, with the plain optimizer and with DistributedOptimizer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

TENSORS = 1000


def time_step(step: Callable[[], object], calls: int) -> float:
    step()
    start = time.perf_counter()
    for _ in range(calls):
        step()
    return (time.perf_counter() - start) / calls * 1e6


def be_rank(rounds: int) -> None:
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    tensors = [tf.zeros(256) for _ in range(TENSORS)]

    def graph_of(op: Callable[[tf.Tensor, str], tf.Tensor]) -> Callable[[], object]:
        # Each operation has a separate input tensor in the graph, as a gradient would have.
        made = tf.function(lambda xs: [op(x + 1, f"many.{i}") for i, x in enumerate(xs)])
        return lambda: made(tensors)

    contenders = {
        "ours": graph_of(lambda x, name: hvd.allreduce(x, op=hvd.Sum, name=name)),
        "identity": graph_of(lambda x, name: tf.identity(x, name=name)),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, step in contenders.items():
            hvd.allreduce(tf.zeros(1), name="ready")
            took = tf.constant(time_step(step, 10) / TENSORS)
            times[name].append(round(float(hvd.allreduce(took, op=hvd.Max, name="took")), 3))
    if hvd.rank() == 0:
        scenario = "1000 tensors of 1 KiB in a tf.function"
        print(json.dumps({"scenario": scenario, "ranks": hvd.size(), **times}), flush=True)
    hvd.shutdown()


def fit_alone(rounds: int) -> None:
    import horovod.tensorflow.keras as hvd
    import numpy as np
    import tensorflow as tf

    hvd.init()
    layers = tf.keras.layers
    images = np.random.default_rng(0).random((1024, 8, 8, 1), np.float32)
    labels = np.arange(1024) % 10

    def fit_with(wrap: Callable[[object], object]) -> Callable[[], object]:
        model = tf.keras.Sequential(
            [
                layers.Input((8, 8, 1)),
                layers.Conv2D(32, 3, activation="relu"),
                layers.Conv2D(32, 3, activation="relu"),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(10),
            ]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(wrap(tf.keras.optimizers.SGD(0.01)), loss, jit_compile=False)
        return lambda: model.fit(images, labels, batch_size=32, verbose=0)

    contenders = {
        "ours": fit_with(hvd.DistributedOptimizer),
        "alone": fit_with(lambda inner: inner),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, fit in contenders.items():
            times[name].append(round(time_step(fit, 2) / 32, 3))
    print(json.dumps({"scenario": "a step of fit on one rank", "ranks": 1, **times}), flush=True)


def main(ranks: int, rounds: int) -> int:
    from horovod import _core

    secret = _core.make_secret()
    store = _core.rendezvous_start(secret, "127.0.0.1", False)
    settings = {
        "HOROVOD_RENDEZVOUS": f"127.0.0.1:{_core.rendezvous_port(store)}",
        "HOROVOD_SIZE": str(ranks),
        "_HOROVOD_SECRET_KEY": secret,
    }
    command = [sys.executable, __file__, "rank", str(rounds)]
    processes = [
        subprocess.Popen(command, env=os.environ | settings | {"HOROVOD_RANK": str(rank)})
        for rank in range(ranks)
    ]
    codes = [process.wait() for process in processes]
    _core.rendezvous_stop(store)
    fit = subprocess.run([sys.executable, __file__, "fit", str(rounds)], check=False)
    codes.append(fit.returncode)
    return max(map(abs, codes))


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        be_rank(int(sys.argv[2]))
    elif sys.argv[1] == "fit":
        fit_alone(int(sys.argv[2]))
    else:
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
