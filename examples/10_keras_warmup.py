# SPDX-License-Identifier: Apache-2.0
"""Learning-rate warm-up, metrics averaged across ranks, and checkpoints of one rank.

    horovodrun -np 2 python examples/10_keras_warmup.py

Each rank has a part of the images. With n ranks a batch is n times larger, which allows a learning
rate that is n times higher, but not in the first epochs.
"""

import pathlib
import tempfile

import digits_keras as digits
import horovod.keras as hvd
import keras

EPOCHS, WARMUP = 8, 2

hvd.init()
keras.utils.set_random_seed(1 + hvd.rank())
images, labels = digits.load()
is_test = digits.is_test(labels)
rows = slice(hvd.rank(), None, hvd.size())

model = digits.net()
rate = 0.02 * hvd.size()
model.compile(
    optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(rate, momentum=0.9)),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

checkpoint = pathlib.Path(tempfile.mkdtemp()) / "digits.keras"
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    # Before the other callbacks, so that they see the average metrics.
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=WARMUP, verbose=hvd.rank() == 0),
    hvd.callbacks.LearningRateScheduleCallback(rate, 0.1, start_epoch=EPOCHS - 2),
]
if hvd.rank() == 0:  # several ranks would overwrite each other's files
    callbacks.append(keras.callbacks.ModelCheckpoint(checkpoint))

# All ranks take the same number of steps: that of the rank with the fewest images.
mine = (~is_test).nonzero()[0][rows][: (~is_test).sum() // hvd.size()]
history = model.fit(
    images[mine],
    labels[mine],
    batch_size=32,
    epochs=EPOCHS,
    verbose=0,
    callbacks=callbacks,
    validation_data=(images[is_test][rows], labels[is_test][rows]),
).history
if hvd.rank() == 0:
    rates = ", ".join(f"{rate:.4f}" for rate in history["lr"])
    print(f"learning rates at the end of each epoch: {rates}")
    print(f"accuracy on all ranks' test images: {history['val_accuracy'][-1]:.3f}")
    # The optimizer has its saved state, and load_model makes it a distributed one again.
    resumed = hvd.load_model(checkpoint)
    print(f"the checkpoint is from step {int(resumed.optimizer.iterations)}")
