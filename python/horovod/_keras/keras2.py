# SPDX-License-Identifier: Apache-2.0
"""Optimizers of Keras 2, before 2.11 and later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horovod._keras.optimizer import Distributed


class DistributedKeras2(Distributed):
    """Overrides the method of Keras 2 that reduces gradients.

    A LossScaleOptimizer calls it at the right time. Its name is aggregate_gradients, and
    _aggregate_gradients before 2.11.
    """

    def aggregate_gradients(self, grads_and_vars: Any) -> Any:
        pairs = list(grads_and_vars)
        # With several passes, apply_gradients adds them up; it calls this in a branch of a graph.
        if not pairs or self._hvd_settings.backward_passes_per_step > 1:
            return pairs
        gradients, variables = zip(*pairs)
        return list(zip(self._hvd_ready(gradients, variables), variables))

    _aggregate_gradients = aggregate_gradients

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        """Pairs of reduced gradients and their variables, ready for apply_gradients.

        minimize() of optimizers before 2.11 calls it.
        """
        plain = getattr(super(), "_compute_gradients", _gradients_of)
        pairs = list(plain(loss, var_list, grad_loss=grad_loss, tape=tape))
        if not pairs:
            return pairs
        gradients, variables = zip(*pairs)
        return list(zip(self._allreduce(gradients, variables), variables))

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        plain = super().apply_gradients  # type: ignore[misc]
        pairs = list(grads_and_vars)
        if self._hvd_settings.backward_passes_per_step == 1:
            applied = plain(pairs, *args, **kwargs)
            # A caller may switch the reduction off. In either case the gradients are applied now.
            self._hvd.reduced_in = None
            return applied
        gradients, variables = zip(*pairs)
        self._hvd_make_variables(variables)
        ready = self._hvd_ready(gradients, variables)
        done = self._hvd_step(ready, lambda: plain(list(zip(ready, variables)), *args, **kwargs))
        # In a graph of TensorFlow 1 the caller has to fetch an operation.
        return self.iterations if done is None else done  # type: ignore[attr-defined]

    def _hvd_make_variables(self, variables: Sequence[Any]) -> None:
        """Create all variables of the optimizer now: a branch of a graph cannot create them."""
        import tensorflow as tf

        with tf.init_scope():
            if hasattr(self, "_create_all_weights"):
                self._create_all_weights(variables)
            else:
                self.build(variables)  # type: ignore[attr-defined]


class DistributedScaling(Distributed):
    """A LossScaleOptimizer of Keras 2 around a distributed optimizer, which reduces gradients."""

    inner_optimizer: Any

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        scaling = super().from_config(config, custom_objects)  # type: ignore[misc]
        inner = scaling.inner_optimizer
        if not isinstance(inner, Distributed):
            cls._hvd_distribute_inner(inner)  # type: ignore[attr-defined]
        return scaling

    def register_local_var(self, var: Any) -> None:
        self.inner_optimizer.register_local_var(var)

    def _allreduce_grads(
        self, grads: Sequence[Any], vars: Sequence[Any], use_generic_names: bool = False
    ) -> list[Any]:
        return self.inner_optimizer._allreduce_grads(grads, vars, use_generic_names)

    def _allreduce(self, grads: Sequence[Any], vars: Sequence[Any]) -> list[Any]:
        return self.inner_optimizer._allreduce(grads, vars)

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        """As above, for the scaled loss: an infinity of one rank reaches all ranks."""
        import tensorflow as tf

        tape = tf.GradientTape() if tape is None else tape
        with tape:
            scaled = self.get_scaled_loss(loss)  # type: ignore[attr-defined]
        pairs = self.inner_optimizer._compute_gradients(scaled, var_list, grad_loss, tape)
        gradients = self.get_unscaled_gradients(  # type: ignore[attr-defined]
            [gradient for gradient, _ in pairs]
        )
        return [(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs)]


def _gradients_of(loss: Any, var_list: Any, grad_loss: Any, tape: Any) -> list[tuple[Any, Any]]:
    """Compute gradients as optimizers before 2.11 do; later ones have no grad_loss."""
    import tensorflow as tf

    if not callable(loss) and tape is None:
        raise ValueError("a loss that is a tensor needs tape=, the tape it was recorded on")
    tape = tf.GradientTape() if tape is None else tape
    if callable(loss):
        with tape:
            if not callable(var_list):
                tape.watch(var_list)
            loss = loss()
            if callable(var_list):
                var_list = var_list()
    variables = tf.nest.flatten(var_list)
    return list(zip(tape.gradient(loss, variables, grad_loss), variables))
