# SPDX-License-Identifier: Apache-2.0
"""TensorFlow for conformance.py."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import conformance
import horovod.tensorflow as hvd
import tensorflow as tf

# So few threads that kernels which wait would block each other.
tf.config.threading.set_inter_op_parallelism_threads(2)


class Frontend:
    hvd = hvd
    dtypes = (
        "uint8",
        "int8",
        "uint16",
        "int16",
        "uint32",
        "int32",
        "uint64",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    )
    InvalidArgument = tf.errors.InvalidArgumentError
    Internal = (tf.errors.FailedPreconditionError, tf.errors.AbortedError)

    def start(self):
        hvd.init()
        size = hvd.size()
        hvd.shutdown()
        self.sets = [hvd.ProcessSet(ranks) for ranks in conformance.static_sets(size)]
        hvd.init(process_sets=self.sets)

    def barrier(self, name):
        hvd.allreduce(tf.zeros(1), name=name)

    def tensor(self, array, dtype=None):
        tensor = tf.constant(array)
        return tensor if dtype is None else tf.cast(tensor, dtype)

    def array(self, tensor):
        wide = tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor
        return wide.numpy()

    def gradient(self, function, array):
        x = tf.constant(array)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            weights = tf.reshape(tf.range(1, tf.size(y) + 1), tf.shape(y))
            total = tf.reduce_sum(y * tf.cast(weights, y.dtype))
        return tape.gradient(total, x).numpy()
