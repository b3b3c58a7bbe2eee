# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network of Keras to read handwritten digits, on any number of ranks.

    horovodrun -np 2 python examples/09_keras_digits.py
    python examples/09_keras_digits.py                        one rank, without a launcher

A batch has 96 images for any number of ranks, and each rank takes its share. The average of the
gradients of all ranks is the gradient of the whole batch. So all runs end with the same weights,
except for rounding. With --save PREFIX each rank writes its weights to PREFIX.<rank>.
"""

import argparse
import pathlib

import digits_keras as digits
import horovod.tensorflow.keras as hvd
import keras
import numpy as np

BATCH = 96


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--save", metavar="PREFIX")
    options = parser.parse_args()

    hvd.init()
    keras.utils.set_random_seed(1)
    images, labels = digits.load()
    is_test = digits.is_test(labels)

    model = digits.net()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])

    # Whole batches only, so that the shares of all ranks have the same size.
    training = np.random.RandomState(1).permutation(np.flatnonzero(~is_test))
    training = training[: len(training) // BATCH * BATCH]
    mine = training[hvd.rank() :: hvd.size()]
    model.fit(
        images[mine],
        labels[mine],
        batch_size=BATCH // hvd.size(),
        epochs=options.epochs,
        shuffle=False,
        verbose=0,
        # After the first batch, every rank has the weights of rank 0.
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
    )

    # Each rank tests its share of the test images.
    mine = np.flatnonzero(is_test)[hvd.rank() :: hvd.size()]
    right = np.sum(model.predict(images[mine], verbose=0).argmax(1) == labels[mine])
    accuracy = float(hvd.allreduce(right, op=hvd.Sum, name="right")) / is_test.sum()
    if hvd.rank() == 0:
        who = "1 rank recognises" if hvd.size() == 1 else f"{hvd.size()} ranks recognise"
        print(f"{who} {100 * accuracy:.1f} % of digits not seen in training")
    if options.save:
        weights = np.concatenate([w.ravel() for w in model.get_weights()])
        pathlib.Path(f"{options.save}.{hvd.rank()}").write_bytes(weights.tobytes())
    return 0 if accuracy >= 0.95 else 1


if __name__ == "__main__":
    raise SystemExit(main())
