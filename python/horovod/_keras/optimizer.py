"""Optimizers of Keras 2 and 3 that reduce gradients before they apply them.

A distributed optimizer is an instance of a class that is made for it: a subclass of its own class
by the same name. The settings are an attribute of that class, so that an optimizer that is made
from its configuration is distributed too. Nothing is added to the configuration or to the
variables: what is saved is what the plain optimizer would have saved.
"""

from __future__ import annotations

import collections
import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from horovod.common.basics import Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set


@dataclasses.dataclass(frozen=True)
class Settings:
    """How gradients are reduced."""

    compression: Any
    name: str | None = None
    device_dense: str = ""
    device_sparse: str = ""
    sparse_as_dense: bool = False
    gradient_predivide_factor: float = 1.0
    op: int = Average
    backward_passes_per_step: int = 1
    average_aggregated_gradients: bool = False
    groups: Any = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True
    local_layers: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.op not in (Average, Sum):
            raise ValueError("a DistributedOptimizer of Keras takes op=hvd.Average or hvd.Sum only")
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise ValueError("gradient_predivide_factor needs op=hvd.Average")
        if self.backward_passes_per_step <= 0:
            raise ValueError(
                f"backward_passes_per_step has to be at least 1: {self.backward_passes_per_step}"
            )
        for layer in self.local_layers:
            if not hasattr(layer, "trainable_weights"):
                raise ValueError(f"local_layers contains {layer!r}, which is no layer of Keras")

    def is_distributed(self) -> bool:
        """Whether there is anybody to reduce with."""
        return bool(self.process_set.included()) and self.process_set.size() != 1

    def set_apart(
        self, gradients: Sequence[Any], variables: Sequence[Any], local_variables: Sequence[Any]
    ) -> tuple[list[Any], list[int]]:
        """The gradients, those of local variables as they are applied; and which are to be shared.

        For frameworks whose variables are told apart by their identity.
        """
        results = list(gradients)
        local = {id(variable) for variable in local_variables}
        shared = []
        for i, gradient in enumerate(gradients):
            if gradient is None:
                continue
            if id(variables[i]) not in local:
                shared.append(i)
            elif self.scale_local_gradients:
                results[i] = gradient / self.process_set.size()
        return results, shared


def backend_of(keras: Any) -> Any:
    """The module that reduces gradients of the framework that this Keras works with."""
    name = keras.backend.backend()
    if name not in ("tensorflow", "torch", "jax"):
        raise ImportError(f"Horovod cannot serve Keras with the backend {name}")
    return importlib.import_module(f"horovod._keras.{name}_backend")


# How many optimizers of each name have reduced gradients. They are told apart by the order in
# which they do so for the first time: ranks may have made others before, such as to load a model.
_in_use: collections.Counter[str] = collections.Counter()


class _Progress:
    """What an optimizer has besides its settings. A plain object, which Keras does not track."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.local_variables: list[Any] = []
        self.accumulator: Any = None


class Distributed:
    """What is put before the class of an optimizer."""

    _hvd_settings: Settings
    _hvd_backend: Any

    @property
    def _hvd(self) -> _Progress:
        if "_hvd_progress" not in self.__dict__:
            object.__setattr__(self, "_hvd_progress", _Progress())
        return self.__dict__["_hvd_progress"]

    def register_local_var(self, var: Any) -> None:
        """Keep the gradient of a variable on this rank, for weights that ranks do not share."""
        self._hvd.local_variables.append(var)

    def _hvd_local_variables(self) -> list[Any]:
        # Layers may have got their weights since.
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

    def _hvd_reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        return self._hvd_backend.reduce(
            list(gradients),
            list(variables),
            self._hvd_settings,
            self._hvd_name(),
            self._hvd_local_variables(),
        )

    def _hvd_all_true(self, flag: Any) -> Any:
        return self._hvd_backend.all_true(flag, self._hvd_settings, f"{self._hvd_name()}.finite")

    def _hvd_accumulate(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        apply: Callable[[list[Any]], Any],
    ) -> None:
        """Apply what has come together once there are enough passes; else only count the step."""
        if self._hvd.accumulator is None:
            settings = self._hvd_settings
            self._hvd.accumulator = self._hvd_backend.Accumulator(
                settings.backward_passes_per_step,
                settings.average_aggregated_gradients,
                settings.sparse_as_dense,
            )
        self._hvd.accumulator.add(
            list(gradients),
            list(variables),
            lambda sums: apply(self._hvd_reduce(sums, variables)),
            lambda: _step_counter(self).assign_add(1),
        )


def _step_counter(optimizer: Any) -> Any:
    """The variable behind optimizer.iterations."""
    inner = getattr(optimizer, "inner_optimizer", None)
    counter = getattr(inner or optimizer, "_iterations", None)
    return (inner or optimizer).iterations if counter is None else counter


class DistributedKeras3(Distributed):
    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        if trainable_variables is None:
            variables = self._trainable_variables  # type: ignore[attr-defined]
        else:
            variables = list(trainable_variables)
        plain = super().apply  # type: ignore[misc]
        if self._hvd_settings.backward_passes_per_step == 1:
            return plain(self._hvd_reduce(grads, variables), trainable_variables)
        if not self.built:  # type: ignore[attr-defined]
            self.build(variables)  # type: ignore[attr-defined]  # not in the branch of a graph
        return self._hvd_accumulate(
            grads, variables, lambda reduced: plain(reduced, trainable_variables)
        )

    def stateless_apply(
        self, optimizer_variables: Any, grads: Sequence[Any], trainable_variables: Any
    ) -> Any:
        # It calls apply() in the end, but for a LossScaleOptimizer, which has to see what is
        # reduced.
        if hasattr(self, "inner_optimizer"):
            grads = self._hvd_reduce(grads, self._trainable_variables)  # type: ignore[attr-defined]
        plain = super().stateless_apply  # type: ignore[misc]
        return plain(optimizer_variables, grads, trainable_variables)


class DistributedKeras2(Distributed):
    """Keras 2 has a method for it, which an optimizer that scales the loss calls at the right time.

    It is called aggregate_gradients, and _aggregate_gradients by optimizers of before 2.11.
    """

    def aggregate_gradients(self, grads_and_vars: Any) -> Any:
        grads_and_vars = list(grads_and_vars)
        if not grads_and_vars or self._hvd_settings.backward_passes_per_step > 1:
            return grads_and_vars
        gradients, variables = zip(*grads_and_vars)
        return list(zip(self._hvd_reduce(gradients, variables), variables))

    _aggregate_gradients = aggregate_gradients

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        plain = super().apply_gradients  # type: ignore[misc]
        if self._hvd_settings.backward_passes_per_step == 1:
            return plain(grads_and_vars, *args, **kwargs)
        gradients, variables = zip(*grads_and_vars)
        self._hvd_make_variables(variables)
        self._hvd_accumulate(
            gradients,
            variables,
            lambda reduced: plain(list(zip(reduced, variables)), *args, **kwargs),
        )
        return self.iterations  # type: ignore[attr-defined]

    def _hvd_make_variables(self, variables: Sequence[Any]) -> None:
        """All that there will be: they cannot be made in the branch of a graph."""
        import tensorflow as tf

        with tf.init_scope():
            if hasattr(self, "_create_all_weights"):
                self._create_all_weights(variables)
            else:
                self.build(variables)  # type: ignore[attr-defined]


def is_keras_3(optimizer: Any) -> bool:
    return callable(getattr(optimizer, "apply", None)) and hasattr(optimizer, "stateless_apply")


def distributed_class(cls: type, settings: Settings, backend: Any, base: type) -> type:
    attributes = {
        "_hvd_settings": settings,
        "_hvd_backend": backend,
        # By which Keras finds the plain class again, where a model is loaded without Horovod.
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    return type(cls)(cls.__name__, (base, cls), attributes)


def distribute(keras: Any, optimizer: Any, settings: Settings) -> Any:
    """A distributed optimizer with the configuration of this one."""
    if isinstance(optimizer, str):
        optimizer = keras.optimizers.get(optimizer)
    cls, make = _class_for(keras, optimizer, settings)
    if cls is None:
        return make(optimizer)
    return cls.from_config(optimizer.get_config())


def distribute_in_place(keras: Any, optimizer: Any, settings: Settings) -> Any:
    """The same optimizer, with its state, and distributed."""
    cls, make = _class_for(keras, optimizer, settings)
    if cls is None:
        return make(optimizer)
    object.__setattr__(optimizer, "__class__", cls)
    return optimizer


def _class_for(keras: Any, optimizer: Any, settings: Settings) -> tuple[Any, Any]:
    """The class of its distributed form; or a function that makes that."""
    if isinstance(optimizer, Distributed):
        raise ValueError(f"{type(optimizer).__name__} is a DistributedOptimizer already")
    backend = backend_of(keras)
    backend.check(settings)
    if is_keras_3(optimizer):
        _let_ranks_agree_on_loss_scales(keras)
        return distributed_class(type(optimizer), settings, backend, DistributedKeras3), None
    if hasattr(optimizer, "inner_optimizer"):
        if settings.backward_passes_per_step > 1:
            raise ValueError(
                "backward_passes_per_step cannot be used with the LossScaleOptimizer of Keras 2, "
                "which looks at the gradients of each pass; use Keras 3"
            )

        def make(scaling: Any) -> Any:
            config = scaling.get_config()
            del config["inner_optimizer"]
            inner = distribute(keras, scaling.inner_optimizer, settings)
            return type(scaling)(inner, **config)

        return None, make
    return distributed_class(type(optimizer), settings, backend, DistributedKeras2), None


def _let_ranks_agree_on_loss_scales(keras: Any) -> None:
    """Let a LossScaleOptimizer around a distributed optimizer ask all ranks about infinities.

    Keras puts one around the optimizer of a model of mixed_float16. It skips a step, and so the
    reduction, when it finds an infinity in the gradients of this rank, and other ranks would wait.
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
