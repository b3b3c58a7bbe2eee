# SPDX-License-Identifier: Apache-2.0
"""A custom training loop in TensorFlow 2 that learns to read handwritten digits.

horovodrun -np 2 python examples/12_tensorflow2_loop.py
"""

import digits_keras as digits
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

BATCH = 96

hvd.init()
tf.config.threading.set_intra_op_parallelism_threads(1)  # ranks share the cores
tf.random.set_seed(1 + hvd.rank())

images, labels = digits.load()
is_test = digits.is_test(labels)

model = digits.net()
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)


@tf.function
def train(batch, truth):
    with tf.GradientTape() as tape:
        loss = loss_of(truth, model(batch, training=True))
    tape = hvd.DistributedGradientTape(tape)  # the average of all ranks' gradients
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


# Each rank has its own images; all have the same number of batches.
mine = np.flatnonzero(~is_test)[hvd.rank() :: hvd.size()]
share = BATCH // hvd.size()
steps = np.count_nonzero(~is_test) // hvd.size() // share
data = tf.data.Dataset.from_tensor_slices((images[mine], labels[mine]))
data = data.shuffle(len(mine), seed=1).batch(share, drop_remainder=True).take(steps)
is_first = True
for epoch in range(10):
    for batch, truth in data:
        loss = train(batch, truth)
        if is_first:
            # The first step has created all variables, including those of the optimizer. Now every
            # rank takes the values of rank 0.
            state = optimizer.variables
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(state() if callable(state) else state, root_rank=0)
            is_first = False
    loss = hvd.allreduce(loss, name="loss")
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: loss {float(loss):.4f}", flush=True)

# Each rank tests its share of the test images.
mine = np.flatnonzero(is_test)[hvd.rank() :: hvd.size()]
right = tf.math.count_nonzero(tf.argmax(model(images[mine]), 1) == labels[mine])
right = hvd.allreduce(right, op=hvd.Sum, name="right")
if hvd.rank() == 0:
    accuracy = float(right) / np.count_nonzero(is_test)
    print(f"{hvd.size()} ranks recognise {100 * accuracy:.1f} % of digits they have not seen")
