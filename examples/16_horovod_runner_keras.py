# SPDX-License-Identifier: Apache-2.0
"""From Keras on one machine to HorovodRunner: `train`, and the changes for it in `train_hvd`.

    python examples/16_horovod_runner_keras.py                two tasks of a Spark on this machine
    spark-submit --master spark://… examples/16_horovod_runner_keras.py --np 4 --folder /shared
    python examples/16_horovod_runner_keras.py --np -2        two processes here, without Spark

HorovodRunner sends the function to the executors, with everything of this script that the function
uses: other functions, and the images. It does not send modules, so each function contains its
imports.
"""

import argparse
import os
import pathlib
import tempfile
import uuid

import digits_keras as digits
from pyspark.sql import SparkSession
from sparkdl import HorovodRunner

BATCH, EPOCHS = 32, 6
IMAGES, LABELS = digits.load()
IS_TEST = digits.is_test(LABELS)


def make_model():
    import keras
    from keras import layers

    return keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def accuracy_of(checkpoint):
    """The accuracy of a saved model on images that were not used in training."""
    import keras

    model = keras.models.load_model(checkpoint, compile=False)
    right = model.predict(IMAGES[IS_TEST], verbose=0).argmax(1) == LABELS[IS_TEST]
    return float(right.mean())


def train(learning_rate, checkpoint):
    import keras

    model = make_model()
    optimizer = keras.optimizers.SGD(learning_rate, momentum=0.9)
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        IMAGES[~IS_TEST],
        LABELS[~IS_TEST],
        batch_size=BATCH,
        epochs=EPOCHS,
        verbose=0,
        callbacks=[keras.callbacks.ModelCheckpoint(checkpoint)],
    )


def train_hvd(learning_rate, checkpoint):
    import horovod.tensorflow.keras as hvd
    import keras
    import tensorflow as tf
    from sparkdl.horovod.tensorflow.keras import LogCallback

    hvd.init()
    # One GPU per process.
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

    # Each process reads its own part of the images; all parts have the same size.
    images, labels = IMAGES[~IS_TEST], LABELS[~IS_TEST]
    whole = len(images) // hvd.size() * hvd.size()
    mine = slice(hvd.rank(), whole, hvd.size())

    model = make_model()
    # A step uses hvd.size() batches, so the learning rate is larger by that factor.
    optimizer = keras.optimizers.SGD(learning_rate * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer)
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    # All processes begin with the weights of rank 0.
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
    ]
    if hvd.rank() == 0:  # several processes would overwrite each other's files
        callbacks += [keras.callbacks.ModelCheckpoint(checkpoint), LogCallback()]
    history = model.fit(
        images[mine], labels[mine], batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=callbacks
    )
    return hvd.size(), history.history["accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--np", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="shared with the executors")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder) / f"digits-{uuid.uuid4()}"
    folder.mkdir(parents=True)

    train(options.learning_rate, folder / "alone.keras")
    print(f"one process recognises {100 * accuracy_of(folder / 'alone.keras'):.1f} %")

    if options.np > 0:
        SparkSession.builder.appName("HorovodRunner").getOrCreate()
    # A timeline of all processes, for chrome://tracing.
    os.environ["HOROVOD_TIMELINE"] = str(folder / "horovod_timeline.json")
    hr = HorovodRunner(np=options.np)
    checkpoint = folder / "horovod.keras"
    size, learned = hr.run(train_hvd, learning_rate=options.learning_rate, checkpoint=checkpoint)
    print(f"in training: {', '.join(f'{100 * share:.1f} %' for share in learned)}")
    print(f"{size} processes recognise {100 * accuracy_of(checkpoint):.1f} %")
    print(f"timeline: {os.environ['HOROVOD_TIMELINE']}")


if __name__ == "__main__":
    main()
