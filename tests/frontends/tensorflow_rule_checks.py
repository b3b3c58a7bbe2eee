# SPDX-License-Identifier: Apache-2.0
"""The gradient rule of each collective, in every kind of graph and with shapes that are unknown.

A session runs only operations that its results depend on, and an operation without a name is named
after its tensor. A rule that ignores this on one rank makes the other ranks wait without end.
"""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def ramp(factor, rows):
    """Rows of two: `factor` times 1, 2, 3, …"""
    return factor * np.arange(1.0, 2 * rows + 1).reshape(rows, 2).astype(np.float32)


class Rules:
    """Functions of the tensor of each rank, which has `rows` rows; and the expected gradients.

    The output gradient of rank r is r + 1 times 1, 2, 3, …
    """

    def __init__(self, process_set):
        self.ranks = list(process_set.ranks)
        self.size, self.place = len(self.ranks), self.ranks.index(hvd.rank())
        self.root = self.ranks[-1]
        self.factor = hvd.rank() + 1
        self.total = sum(rank + 1 for rank in self.ranks)
        self.rows = [2 * self.size + 1 + place for place in range(self.size)]  # of each rank
        self.splits = [[1 + (i + j) % 2 for j in range(self.size)] for i in range(self.size)]
        self.at = {"process_set": process_set}

    def table(self):
        """For each rule: the function, this rank's tensor and its gradient."""
        at, root, total, mean = self.at, self.root, self.total, self.total / self.size
        same, own = ramp(1, 2 * self.size), ramp(1, self.rows[self.place])
        start = sum(self.rows[: self.place])
        of_all = ramp(mean, sum(self.rows))[start : start + len(own)]
        parts = np.concatenate([ramp(rank + 1, 2) for rank in self.ranks])
        sent = ramp(mean, len(same)) * (hvd.rank() == root)
        twice = ramp(mean / self.size, len(same)) * (hvd.rank() == self.ranks[0])
        splits = self.splits[self.place]

        def on(function, *args, **kwargs):
            return lambda x: function(x, *args, **kwargs, **at)

        def grouped(function, **kwargs):
            return lambda x: function([x, 2 * x], **kwargs, **at)[1]

        def twice_sent(x):
            return hvd.broadcast(hvd.broadcast(x, self.ranks[0], **at), root, **at)

        def looked_up(x):
            y = hvd.reducescatter(x, op=hvd.Sum, **at)
            return tf.gather(y, tf.range(tf.shape(y)[0]))  # whose gradient is tf.IndexedSlices

        return {
            "allreduce": (on(hvd.allreduce, op=hvd.Sum), same, ramp(total, len(same))),
            "grouped_allreduce": (
                grouped(hvd.grouped_allreduce, op=hvd.Sum),
                same,
                ramp(2 * total, len(same)),
            ),
            "allgather": (on(hvd.allgather), own, of_all),
            "grouped_allgather": (grouped(hvd.grouped_allgather), own, 2 * of_all),
            "broadcast": (on(hvd.broadcast, root), same, sent),
            "broadcast twice": (twice_sent, same, twice),
            "alltoall": (lambda x: hvd.alltoall(x, splits, **at)[0], own, self.sent_back(own)),
            "reducescatter": (on(hvd.reducescatter), same, parts),
            "rows of reducescatter": (looked_up, same, self.size * parts),
            "grouped_reducescatter": (grouped(hvd.grouped_reducescatter), same, 2 * parts),
        }

    def sent_back(self, own):
        """The gradient of alltoall: from the receiving rank; zero for rows that were not sent."""
        back = np.zeros_like(own)
        done = 0
        for j, rank in enumerate(self.ranks):
            count = self.splits[self.place][j]
            start = sum(self.splits[i][j] for i in range(self.place))
            received = sum(self.splits[i][j] for i in range(self.size))
            back[done : done + count] = ramp(rank + 1, received)[start : start + count]
            done += count
        return back


def upstream(y, factor):
    ramp = tf.reshape(tf.range(1, tf.size(y) + 1), tf.shape(y))
    return factor * tf.cast(ramp, y.dtype)


def by_tape(functions, tensors, factor):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(tensors)
        ys = [function(x) for function, x in zip(functions, tensors)]
    return [tape.gradient(y, x, upstream(y, factor)) for x, y in zip(tensors, ys)]


def by_function(functions, arrays, factor, shapes):
    signature = [[tf.TensorSpec(shape, tf.float32) for shape in shapes]]

    @tf.function(input_signature=signature, autograph=False)  # autograph takes seconds here
    def traced(tensors):
        return by_tape(functions, tensors, factor)

    return traced([tf.constant(array) for array in arrays])


def by_session(functions, arrays, factor, shapes):
    with tf.Graph().as_default(), v1.Session() as session:
        tensors = [v1.placeholder(tf.float32, shape) for shape in shapes]
        gradients = []
        for function, x in zip(functions, tensors):
            y = function(x)
            gradients += tf.gradients(y, x, upstream(y, factor))
        return session.run(gradients, dict(zip(tensors, arrays)))


def ways(arrays, factor):
    """The ways to compute the gradients of all rules together."""
    known = {
        "static shapes": [array.shape for array in arrays],
        "unknown shapes": [[None, None]] * len(arrays),
        "unknown rank": [None] * len(arrays),
    }
    yield "eager", lambda fs: by_tape(fs, [tf.constant(array) for array in arrays], factor)
    for name, shapes in known.items():
        yield f"function, {name}", lambda fs, s=shapes: by_function(fs, arrays, factor, s)
        yield f"session, {name}", lambda fs, s=shapes: by_session(fs, arrays, factor, s)


def compare(process_set, only=""):
    rules = Rules(process_set)
    table = rules.table()
    functions, arrays, wanted = zip(*table.values())
    for way, gradients in ways(arrays, rules.factor):
        if only in way:
            for rule, got, want in zip(table, gradients(functions), wanted):
                np.testing.assert_allclose(got, want, 1e-5, err_msg=f"{rule}, {way}")


def check_every_gradient_rule_works_in_every_graph(frontend):
    compare(hvd.global_process_set)


def check_gradient_rules_work_in_a_process_set(frontend):
    # A process set that has one rank in jobs of two and three.
    compare(next(each for each in frontend.sets if each.included()), only="session, static")
