# SPDX-License-Identifier: Apache-2.0
"""Checks of horovod.tensorflow.gradients, the reduction that optimizers and tapes use."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from conformance import raises
from horovod.tensorflow.gradients import check_reduction, reduce_gradients


def variables():
    return [tf.Variable(tf.zeros(3)), tf.Variable(tf.zeros(2)), tf.Variable(tf.zeros([4, 1]))]


def gradients(sparse=False):
    """Gradients of the variables above: 1, 2 and 3 times (rank + 1)."""
    scale = hvd.rank() + 1.0
    last = scale * 3 * tf.ones([4, 1])
    if sparse:
        last = tf.IndexedSlices(scale * 3 * tf.ones([2, 1]), [0, 2], [4, 1])
    return [scale * tf.ones(3), scale * 2 * tf.ones(2), last]


def values(tensors):
    return [np.unique(tf.convert_to_tensor(tensor).numpy()).tolist() for tensor in tensors]


def ways():
    """Runs it eagerly, in a graph, and in a loop of a graph."""

    def in_a_loop(function):
        @tf.function
        def traced():
            result = [tf.zeros(3), tf.zeros(2), tf.zeros([4, 1])]
            for _ in tf.range(2):
                result = function()
            return result

        return traced

    return [lambda function: function, tf.function, in_a_loop]


def check_gradients_are_averaged_in_every_way(frontend):
    mean = (hvd.size() + 1) / 2
    weights = variables()
    settings = [
        {},
        {"name": "mine"},
        {"use_generic_names": True},
        {"compression": hvd.Compression.fp16},
        {"gradient_predivide_factor": 2.0},
        {"groups": 2},
        {"groups": 99, "name": "many"},
        {"groups": [[weights[2], weights[0]]], "name": "lists", "gradient_predivide_factor": 2.0},
    ]
    for setting in settings:
        for way in ways():
            got = way(
                lambda setting=setting: reduce_gradients(gradients(), variables=weights, **setting)
            )()
            assert values(got) == [[mean], [2 * mean], [3 * mean]], (setting, values(got))
    total = reduce_gradients(gradients(), op=hvd.Sum)
    assert values(total) == [[n * mean * hvd.size()] for n in (1, 2, 3)]


def check_gradients_that_are_missing_or_sparse_stay_so(frontend):
    mean = (hvd.size() + 1) / 2
    for way in ways()[:2]:
        got = way(lambda: [g for g in reduce_gradients([None, gradients()[1]]) if g is not None])()
        assert values(got) == [[2 * mean]]
    assert reduce_gradients([None, None]) == [None, None] and reduce_gradients([]) == []

    for factor in (1.0, 2.0):
        for groups in (None, 1):
            first, _, last = reduce_gradients(
                gradients(sparse=True), gradient_predivide_factor=factor, groups=groups
            )
            assert isinstance(last, tf.IndexedSlices) and last.values.shape[0] == 2 * hvd.size()
            dense = tf.convert_to_tensor(last).numpy().ravel()
            assert dense.tolist() == [3 * mean, 0, 3 * mean, 0] and values([first]) == [[mean]]
    dense = reduce_gradients(gradients(sparse=True), sparse_as_dense=True)[2]
    assert isinstance(dense, tf.Tensor) and dense.numpy().ravel().tolist()[1:3] == [0, 3 * mean]


def check_gradients_of_local_variables_are_only_scaled(frontend):
    size, mine, mean = hvd.size(), hvd.rank() + 1.0, (hvd.size() + 1) / 2
    weights = variables()

    def reduced(**how):
        local = [weights[0], weights[2]]
        return reduce_gradients(
            gradients(sparse=True), variables=weights, local_variables=local, **how
        )

    first, second, last = reduced()
    np.testing.assert_allclose(first, np.full(3, mine / size), rtol=1e-6)
    np.testing.assert_allclose(last.values, np.full((2, 1), 3 * mine / size), rtol=1e-6)
    assert values([second]) == [[2 * mean]]
    first, second, last = reduced(scale_local_gradients=False)
    assert values([first, second, last.values]) == [[mine], [2 * mean], [3 * mine]]


def check_ranks_may_have_different_numbers_of_local_variables(frontend):
    # A name has the position among the reduced gradients. A gradient that is None has a position.
    mean = (hvd.size() + 1) / 2
    locals_, (x, y, z) = [tf.Variable(tf.zeros(1)) for _ in range(hvd.rank())], variables()
    weights = [*locals_, x, tf.Variable(tf.zeros(1)), y, z]
    first, second, third = gradients()
    of_weights = [*(tf.ones(1) for _ in locals_), first, None, second, third]
    for how in (
        {"use_generic_names": True},
        {"name": "some"},
        {"name": "two", "groups": 2},
        {"name": "lists", "groups": [[z, x]]},
    ):
        for way in (lambda function: function, tf.function(autograph=False)):

            @way
            def reduced(how=how):
                got = reduce_gradients(
                    of_weights,
                    variables=weights,
                    local_variables=locals_,
                    scale_local_gradients=False,
                    **how,
                )
                assert got[len(locals_) + 1] is None
                return [gradient for gradient in got if gradient is not None]

            wanted = [1.0] * len(locals_) + [mean, 2 * mean, 3 * mean]
            assert values(reduced()) == [[value] for value in wanted], how


def check_gradients_of_a_process_set_are_its_own(frontend):
    evens, odds = frontend.sets
    mine = evens if evens.included() else odds
    mean = sum(rank + 1 for rank in mine.ranks) / mine.size()
    given = gradients()
    got = reduce_gradients(given, process_set=mine)
    assert values(got) == [[mean], [2 * mean], [3 * mean]]
    if mine.size() == 1:
        assert all(a is b for a, b in zip(given, got))
    others = odds if mine is evens else evens
    assert all(a is b for a, b in zip(given, reduce_gradients(given, process_set=others)))


def check_unfit_groups_are_refused(frontend):
    x, y = tf.Variable(1.0), tf.Variable(1.0)
    for groups in (None, 0, 3, [], [[x], [y]], [[x, y]]):
        check_reduction(hvd.Average, 1.0, groups)
    for groups, text in (
        (-1, "negative"),
        (True, "number"),
        ("x", "number"),
        ([x], "lists"),
        ([[x, y], [x]], "twice"),
    ):
        raises(ValueError, text, check_reduction, hvd.Average, 1.0, groups)
    raises(ValueError, "Average", check_reduction, hvd.Sum, 2.0, None)
