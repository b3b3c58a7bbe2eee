# SPDX-License-Identifier: Apache-2.0
"""Optimizers of Keras 2 and 3 that reduce gradients before they apply them.

Each distributed optimizer has a class of its own: a subclass of the plain class with the same name.
The settings are an attribute of that class, so an optimizer that is made from its configuration is
distributed too. The configuration and the variables are those of the plain optimizer, so a saved
model is the same as without Horovod.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from horovod._keras.settings import Settings

# Name -> number of optimizers of this name that have reduced gradients. Several optimizers of one
# name are numbered in the order of their first reduction. The order of creation would not do: a
# rank may have created other optimizers before, for instance to load a model.
_in_use: collections.Counter[str] = collections.Counter()


class CallableList(list):
    """A list for code that reads `optimizer.variables` and for code that calls it."""

    def __call__(self) -> CallableList:
        return self


class _Progress:
    """The state of a distributed optimizer. A plain object, so that Keras does not track it."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.local_variables: list[Any] = []
        self.accumulator: Any = None
        # The graph in which gradients are reduced but not yet applied.
        self.reduced_in: Callable[[], Any] | None = None


class Distributed:
    """The base class that comes before the class of the plain optimizer."""

    _hvd_settings: Settings
    _hvd_backend: Any

    @property
    def _hvd(self) -> _Progress:
        if "_hvd_progress" not in self.__dict__:
            object.__setattr__(self, "_hvd_progress", _Progress())
        return self.__dict__["_hvd_progress"]

    @property
    def variables(self) -> CallableList:
        """The variables of the optimizer; `variables()` returns the same list."""
        # A method in old optimizers of Keras 2, an attribute later.
        variables = super().variables  # type: ignore[misc]
        return CallableList(variables() if callable(variables) else variables)

    def register_local_var(self, var: Any) -> None:
        """Exclude a variable from the reduction; its gradient stays on this rank."""
        self._hvd.local_variables.append(var)

    def _hvd_local_variables(self) -> list[Any]:
        # Layers may have created their weights after the settings were made.
        of_layers = [
            v for layer in self._hvd_settings.local_layers for v in layer.trainable_weights
        ]
        return self._hvd.local_variables + of_layers

    def _hvd_name(self) -> str:
        if self._hvd.name is None:
            name = self._hvd_settings.name or f"Distributed{type(self).__name__}"
            number = _in_use[name]
            _in_use[name] += 1
            self._hvd.name = f"{name}_{number}" if number else name
        return self._hvd.name

    # Programs call the next two, and replace them in one optimizer. ------------------------------

    def _allreduce_grads(
        self, grads: Sequence[Any], vars: Sequence[Any], use_generic_names: bool = False
    ) -> list[Any]:
        """The reduced gradients, in their order."""
        return self._hvd_backend.reduce(
            list(grads),
            list(vars),
            self._hvd_settings,
            None if use_generic_names else self._hvd_name(),
            self._hvd_local_variables(),
        )

    def _allreduce(self, grads: Sequence[Any], vars: Sequence[Any]) -> list[Any]:
        """Gradients that are ready to be applied: added up over passes, reduced after the last one.

        The next step of the optimizer in the same graph does not reduce them again.
        """
        if self._hvd_settings.backward_passes_per_step == 1:
            ready = self._allreduce_grads(grads, vars)
        else:
            ready = self._hvd_accumulator().add(list(grads), list(vars), self._allreduce_grads)
        self._hvd.reduced_in = weakref.ref(self._hvd_backend.current_graph())
        return list(ready)

    def _hvd_ready(self, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Gradients that are ready to be applied; calls _allreduce unless the user has done so."""
        reduced_in, self._hvd.reduced_in = self._hvd.reduced_in, None
        # Gradients that were reduced in another graph, and perhaps never applied, are not these.
        if reduced_in is not None and reduced_in() is self._hvd_backend.current_graph():
            return list(grads)
        ready = self._allreduce(grads, variables)
        self._hvd.reduced_in = None
        return list(ready)

    def _hvd_accumulator(self) -> Any:
        if self._hvd.accumulator is None:
            settings = self._hvd_settings
            self._hvd.accumulator = self._hvd_backend.Accumulator(
                settings.backward_passes_per_step,
                settings.average_aggregated_gradients,
                settings.sparse_as_dense,
            )
        return self._hvd.accumulator

    def _hvd_step(self, ready: Sequence[Any], apply: Callable[[], Any]) -> Any:
        """Call `apply` after the last pass; after other passes only count the step."""
        if self._hvd_settings.backward_passes_per_step == 1:
            return apply()
        return self._hvd_accumulator().step(ready, apply, lambda: _step_counter(self).assign_add(1))

    def _hvd_all_true(self, flag: Any) -> Any:
        return self._hvd_backend.all_true(flag, self._hvd_settings, f"{self._hvd_name()}.finite")


def _step_counter(optimizer: Any) -> Any:
    """The variable behind optimizer.iterations."""
    inner = getattr(optimizer, "inner_optimizer", None)
    counter = getattr(inner or optimizer, "_iterations", None)
    return (inner or optimizer).iterations if counter is None else counter


class DistributedKeras3(Distributed):
    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        if trainable_variables is None:
            variables = self._trainable_variables  # type: ignore[attr-defined]
        else:
            variables = list(trainable_variables)
        plain = super().apply  # type: ignore[misc]
        if self._hvd_settings.backward_passes_per_step > 1 and not self.built:  # type: ignore[attr-defined]
            self.build(variables)  # type: ignore[attr-defined]  # not in the branch of a graph
        ready = self._hvd_ready(grads, variables)
        return self._hvd_step(ready, lambda: plain(ready, trainable_variables))

    def stateless_apply(
        self, optimizer_variables: Any, grads: Sequence[Any], trainable_variables: Any
    ) -> Any:
        # It calls apply(), except in a LossScaleOptimizer, which checks the reduced gradients.
        if hasattr(self, "inner_optimizer"):
            grads = self._hvd_ready(grads, self._trainable_variables)  # type: ignore[attr-defined]
        plain = super().stateless_apply  # type: ignore[misc]
        return plain(optimizer_variables, grads, trainable_variables)


def is_keras_3(optimizer: Any) -> bool:
    return callable(getattr(optimizer, "apply", None)) and hasattr(optimizer, "stateless_apply")


def is_distributed(optimizer: Any) -> bool:
    """Whether an optimizer, or the inner optimizer of it, reduces gradients."""
    inner = getattr(optimizer, "inner_optimizer", None)
    return isinstance(optimizer, Distributed) or isinstance(inner, Distributed)


def let_ranks_agree_on_loss_scales(keras: Any) -> None:
    """Make a LossScaleOptimizer around a distributed optimizer check the gradients of all ranks.

    Keras puts a LossScaleOptimizer around the optimizer of a mixed_float16 model. It skips a step
    if the gradients of this rank contain an infinity. The step includes the reduction, so the other
    ranks would wait.
    """
    scaling = keras.optimizers.LossScaleOptimizer
    if hasattr(scaling.check_finite, "_hvd_plain"):
        return
    plain = scaling.check_finite

    def check_finite(self: Any, grads: Any) -> Any:
        finite = plain(self, grads)
        inner = self.inner_optimizer
        return inner._hvd_all_true(finite) if isinstance(inner, Distributed) else finite

    check_finite._hvd_plain = plain  # type: ignore[attr-defined]
    scaling.check_finite = check_finite
