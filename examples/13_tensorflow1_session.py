# SPDX-License-Identifier: Apache-2.0
"""A script in the style of TensorFlow 1, with a graph and a session, that learns to read digits.

horovodrun -np 2 python examples/13_tensorflow1_session.py
"""

import tempfile

import digits_keras as digits
import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf

hvd.init()
images, labels = digits.load()
images = images.reshape(-1, 64)
is_test = digits.is_test(labels)


def layer(inputs, size, name):
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", [inputs.shape[1], size])
        return tf.matmul(inputs, weights) + tf.get_variable("biases", [size])


def train(folder):
    batch = tf.placeholder(tf.float32, [None, 64], name="images")
    truth = tf.placeholder(tf.int64, [None], name="labels")
    logits = layer(tf.nn.relu(layer(batch, 64, "hidden")), 10, "logits")
    loss = tf.losses.sparse_softmax_cross_entropy(truth, logits)
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), truth), tf.float32))

    # The batch grows with the number of ranks, and so does the learning rate.
    optimizer = tf.train.MomentumOptimizer(0.05 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer)
    step = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())

    hooks = [
        hvd.BroadcastGlobalVariablesHook(0),  # all ranks begin with the variables of rank 0
        tf.train.StopAtStepHook(last_step=600 // hvd.size()),
    ]
    mine = np.flatnonzero(~is_test)[hvd.rank() :: hvd.size()]
    numbers = np.random.RandomState(hvd.rank())
    config = tf.ConfigProto(intra_op_parallelism_threads=1)  # ranks share the cores
    # Only one rank writes checkpoints.
    checkpoints = folder if hvd.rank() == 0 else None
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=checkpoints, hooks=hooks, config=config
    ) as session:
        while not session.should_stop():
            chosen = numbers.choice(mine, 48)
            session.run(step, {batch: images[chosen], truth: labels[chosen]})

    if hvd.rank() == 0:
        with tf.Session() as session:
            tf.train.Saver().restore(session, tf.train.latest_checkpoint(folder))
            recognised = session.run(right, {batch: images[is_test], truth: labels[is_test]})
        print(f"{hvd.size()} ranks recognise {100 * recognised:.1f} % of digits they have not seen")


with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
    train(folder)
