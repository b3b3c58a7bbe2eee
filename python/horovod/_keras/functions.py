"""Values and variables of Keras, by way of arrays of numpy, whatever the backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from horovod._keras.optimizer import Distributed, Settings, distribute_in_place, is_keras_3
from horovod.common import arrays
from horovod.common.basics import Average


def allreduce(
    backend: Any,
    value: Any,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    compression: Any,
) -> Any:
    given = np.asarray(value)
    compressed, context = compression.compress(backend.tensor(given))
    factors = prescale_factor, postscale_factor
    reduced = arrays.allreduce(backend.array(compressed), name, op, *factors)
    result = compression.decompress(backend.tensor(reduced), context)
    return backend.array(result)


def allgather(value: Any, name: str | None = None) -> np.ndarray:
    """All ranks' values, one after the other along the first dimension."""
    return arrays.allgather(value, name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> np.ndarray:
    """The value of the root."""
    return arrays.grouped_broadcast([value], root_rank, name)[0]


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> np.ndarray:
    """This rank's rows of the average, or of what `op` says."""
    return arrays.reducescatter(value, name, op)


def array_of(variable: Any) -> np.ndarray:
    """What is in a variable of any Keras and backend."""
    # The one of Keras 3 refuses numpy where its tensor is cast or on another device.
    if type(variable).__module__.startswith("keras.") and hasattr(variable, "path"):
        import keras

        return np.array(keras.ops.convert_to_numpy(variable.value))
    return np.array(variable.numpy())


def broadcast_variables(variables: Sequence[Any], root_rank: int, name: str) -> None:
    """Overwrite variables with those of the root."""
    # Scalars of numpy are no arrays any more: assign wants the shape of the variable.
    values = arrays.grouped_broadcast([array_of(v) for v in variables], root_rank, name)
    for variable, value in zip(variables, values):
        variable.assign(value)


def optimizer_variables(optimizer: Any) -> list[Any]:
    """A method of Keras 2, and an attribute since."""
    if optimizer is None:
        return []
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def sync_model(model: Any) -> None:
    """Write back what the step of a training with JAX has in hand."""
    if hasattr(model, "jax_state_sync") and getattr(model, "_jax_state", None):
        model.jax_state_sync()


def shared_variables(model: Any, optimizer: Any, local_variables: Iterable[Any]) -> list[Any]:
    """The variables of a model and its optimizer that are to be the same on all ranks.

    Those are not: local variables, what the optimizer keeps for them, states of random numbers and
    metrics.
    """
    local = list(local_variables)
    for candidate in (optimizer, getattr(optimizer, "inner_optimizer", None)):
        if isinstance(candidate, Distributed):
            local += candidate._hvd_local_variables()
    if local:
        local += _kept_for(local, optimizer)
    excluded = {id(inner_variable(variable)) for variable in local}
    variables = [*model.weights, *optimizer_variables(optimizer)]
    return [v for v in variables if id(inner_variable(v)) not in excluded]


def inner_variable(variable: Any) -> Any:
    """The same object for a variable of Keras 3 and for that of the framework in it."""
    return getattr(variable, "_value", None) if hasattr(variable, "_autocast") else variable


def _kept_for(local: list[Any], optimizer: Any) -> list[Any]:
    """Moments and the like: optimizers have lists of them, in the order of the variables."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    trained = list(getattr(optimizer, "_trainable_variables", ()))
    ids = {id(inner_variable(variable)) for variable in local}
    places = [i for i, variable in enumerate(trained) if id(inner_variable(variable)) in ids]
    kept = []
    for name, values in vars(optimizer).items():
        is_list = isinstance(values, (list, tuple)) and len(values) == len(trained)
        if is_list and name not in ("_variables", "_trainable_variables"):
            kept += [values[i] for i in places if hasattr(values[i], "assign")]
    return kept


def load_model(
    keras: Any,
    filepath: Any,
    custom_optimizers: Iterable[type] | None,
    custom_objects: dict[str, Any] | None,
    settings: Settings,
) -> Any:
    objects = {cls.__name__: cls for cls in custom_optimizers or ()}
    objects |= custom_objects or {}
    model = keras.models.load_model(filepath, custom_objects=objects)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not isinstance(optimizer, Distributed):
        if is_keras_3(optimizer) and str(filepath).endswith((".h5", ".hdf5")):
            optimizer = _with_state_of_h5(optimizer, model, filepath)
        model.optimizer = distribute_in_place(keras, optimizer, settings)
    return model


def _with_state_of_h5(optimizer: Any, model: Any, path: Any) -> Any:
    """Keras 3 builds an optimizer from such a file for no variables at all, and loses its state."""
    if len(optimizer._trainable_variables) == len(model.trainable_variables):
        return optimizer
    import h5py

    optimizer = type(optimizer).from_config(optimizer.get_config())
    with h5py.File(path) as file:
        group = file["optimizer_weights"]
        chunks = sorted(
            (name for name in group.attrs if name.startswith("weight_names")),
            key=lambda name: int(name[len("weight_names") :] or 0),
        )
        values = [np.asarray(group[name]) for chunk in chunks for name in group.attrs[chunk]]
    optimizer.build(model.trainable_variables)
    optimizer.set_weights(values)
    return optimizer
