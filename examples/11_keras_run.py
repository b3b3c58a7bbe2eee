# SPDX-License-Identifier: Apache-2.0
"""Runs a function that trains with Keras on two ranks, from a script or a notebook.

    python examples/11_keras_run.py

As in scripts for HorovodRunner, the function contains its imports.
"""

import pathlib
import sys

import horovod

HERE = str(pathlib.Path(__file__).parent)


def train(epochs: int) -> float:
    sys.path.insert(0, HERE)
    import digits_keras as digits
    import horovod.tensorflow.keras as hvd
    import keras

    hvd.init()
    keras.utils.set_random_seed(1)
    images, labels = digits.load()
    is_test = digits.is_test(labels)
    mine = (~is_test).nonzero()[0][: (~is_test).sum() // hvd.size() * hvd.size()]
    mine = mine[hvd.rank() :: hvd.size()]

    model = digits.net()
    optimizer = keras.optimizers.Adam(0.002 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    model.fit(
        images[mine], labels[mine], batch_size=32, epochs=epochs, verbose=0, callbacks=callbacks
    )
    _, accuracy = model.evaluate(images[is_test], labels[is_test], verbose=0)
    return accuracy


if __name__ == "__main__":
    accuracies = horovod.run(train, args=(8,), num_proc=2)
    print(f"rank 0 recognises {accuracies[0]:.3f} of the digits, rank 1 {accuracies[1]:.3f}")
