# SPDX-License-Identifier: Apache-2.0
"""Makes distributed optimizers from plain ones."""

from __future__ import annotations

import warnings
from typing import Any

from horovod._keras import saving
from horovod._keras.backends import backend_of
from horovod._keras.keras2 import DistributedKeras2, DistributedScaling
from horovod._keras.optimizer import (
    DistributedKeras3,
    is_distributed,
    is_keras_3,
    let_ranks_agree_on_loss_scales,
)
from horovod._keras.settings import Settings


def distribute(keras: Any, optimizer: Any, settings: Settings) -> Any:
    """Make a distributed optimizer with the configuration of `optimizer`.

    A distributed optimizer is returned unchanged, with a warning.
    """
    if isinstance(optimizer, str):
        optimizer = keras.optimizers.get(optimizer)
    if is_distributed(optimizer):
        warnings.warn(
            f"{type(optimizer).__name__} is a DistributedOptimizer already; it stays unchanged",
            stacklevel=3,
        )
        return optimizer
    _check_graph(optimizer)
    cls = _class_for(keras, optimizer, settings)
    config = optimizer.get_config()
    if issubclass(cls, DistributedScaling):
        # Not from_config: the class of the inner optimizer may not be registered with Keras.
        del config["inner_optimizer"]
        return cls(distribute(keras, optimizer.inner_optimizer, settings), **config)
    return cls.from_config(config)


def distribute_in_place(keras: Any, optimizer: Any, settings: Settings) -> Any:
    """Make an optimizer distributed by changing its class, so that it keeps its state."""
    cls = _class_for(keras, optimizer, settings)
    if issubclass(cls, DistributedScaling):
        cls._hvd_distribute_inner(optimizer.inner_optimizer)  # type: ignore[attr-defined]
    object.__setattr__(optimizer, "__class__", cls)
    return optimizer


def _class_for(keras: Any, optimizer: Any, settings: Settings) -> type:
    backend = backend_of(keras)
    backend.check(settings)
    attributes = {"_hvd_settings": settings, "_hvd_backend": backend}
    if is_keras_3(optimizer):
        let_ranks_agree_on_loss_scales(keras)
        return _distributed_class(DistributedKeras3, type(optimizer), attributes)
    if not hasattr(optimizer, "inner_optimizer"):
        return _distributed_class(DistributedKeras2, type(optimizer), attributes)
    if settings.backward_passes_per_step > 1:
        raise ValueError(
            "backward_passes_per_step cannot be used with the LossScaleOptimizer of Keras 2, "
            "which looks at the gradients of each pass; use Keras 3"
        )

    def distribute_inner(inner: Any) -> None:
        distribute_in_place(keras, inner, settings)

    attributes["_hvd_distribute_inner"] = staticmethod(distribute_inner)
    return _distributed_class(DistributedScaling, type(optimizer), attributes)


def _distributed_class(base: type, plain: type, attributes: dict[str, Any]) -> type:
    # Programs test the name of the module to find out whether an optimizer is distributed.
    attributes = {
        **attributes,
        **saving.attributes_of(plain),
        "__module__": "horovod._keras",
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
    }
    cls = type(plain)(plain.__name__, (base, plain), attributes)
    saving.save_as(cls, plain)
    return cls


def _check_graph(optimizer: Any) -> None:
    """Raise ValueError for optimizers of Keras 2.11 and later in a graph.

    Their get_config() does not work there.
    """
    is_new = hasattr(optimizer, "_create_iteration_variable") and not is_keras_3(optimizer)
    if not is_new:
        return
    import tensorflow as tf

    if not tf.executing_eagerly():
        name = type(optimizer).__name__
        raise ValueError(
            f"{name} of Keras 2.11 and later works without a graph only; with "
            f"disable_eager_execution() use tf.keras.optimizers.legacy.{name}"
        )
