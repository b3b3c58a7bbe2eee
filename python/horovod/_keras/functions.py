# SPDX-License-Identifier: Apache-2.0
"""Collectives on values and variables of Keras, as arrays of numpy, for every backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from horovod._keras import graph
from horovod._keras.optimizer import Distributed, is_distributed, is_keras_3
from horovod._keras.settings import Settings
from horovod._keras.wrap import distribute_in_place
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
    """The allreduce of both modules; the caller has turned `average` into `op`."""
    how = name, op, prescale_factor, postscale_factor
    given = backend.array(value)
    if compression is backend.Compression.none:
        return backend.result(arrays.allreduce(given, *how))
    with backend.scratch():
        compressed, context = compression.compress(backend.tensor(given))
        reduced = arrays.allreduce(backend.array(compressed), *how)
        restored = backend.array(compression.decompress(backend.tensor(reduced), context))
    return backend.result(restored)


def collectives(backend: Any) -> tuple[Callable[..., Any], ...]:
    """Make allgather, broadcast and reducescatter for a backend."""

    def allgather(value: Any, name: str | None = None) -> Any:
        """Concatenate the values of all ranks along the first dimension, in rank order."""
        return backend.result(arrays.allgather(backend.array(value), name))

    def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
        """The value of the root rank."""
        return backend.result(arrays.grouped_broadcast([backend.array(value)], root_rank, name)[0])

    def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
        """Reduce the values of all ranks and return this rank's share of the rows.

        op: hvd.Average or hvd.Sum.
        """
        return backend.result(arrays.reducescatter(backend.array(value), name, op))

    return allgather, broadcast, reducescatter


def array_of(variable: Any) -> np.ndarray:
    """The value of a variable of any Keras and backend."""
    # A variable of Keras 3 cannot be converted directly if autocast is on or if it is on another
    # device.
    if type(variable).__module__.startswith("keras.") and hasattr(variable, "path"):
        import keras

        return np.array(keras.ops.convert_to_numpy(variable.value))
    if graph.is_current():
        return graph.read([variable])[0]
    return np.array(variable.numpy())


def read(variables: Sequence[Any]) -> list[np.ndarray]:
    """The values of variables; in a graph, by one run of a session."""
    if graph.is_current():
        return graph.read(variables)
    return [array_of(variable) for variable in variables]


def write(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    """Assign values to variables; in a graph, by the session of Keras."""
    if graph.is_current():
        graph.write(variables, values)
        return
    for variable, value in zip(variables, values):
        variable.assign(value)


def broadcast_variables(variables: Sequence[Any], root_rank: int, name: str) -> None:
    """Overwrite variables with those of the root rank."""
    # grouped_broadcast returns arrays even for scalars: assign needs the shape of the variable.
    write(variables, arrays.grouped_broadcast(read(variables), root_rank, name))


def optimizer_variables(optimizer: Any) -> list[Any]:
    """The variables of an optimizer: a method in old optimizers of Keras 2, an attribute later."""
    if optimizer is None:
        return []
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def sync_model(model: Any) -> None:
    """Write the state of a running training step of JAX back into the variables."""
    if hasattr(model, "jax_state_sync") and getattr(model, "_jax_state", None):
        model.jax_state_sync()


def shared_variables(model: Any, optimizer: Any, local_variables: Iterable[Any]) -> list[Any]:
    """The variables of a model and its optimizer that have to be the same on all ranks.

    Not included: local variables, the optimizer's variables for these, states of random numbers and
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
    """The variable of the framework inside a variable of Keras 3; other variables as they are."""
    return getattr(variable, "_value", None) if hasattr(variable, "_autocast") else variable


def _kept_for(local: list[Any], optimizer: Any) -> list[Any]:
    """The variables that an optimizer keeps for local variables, such as moments."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if hasattr(optimizer, "_slots"):  # Keras 2 before 2.11
        keys = [getattr(variable, "_unique_id", None) for variable in local]
        return [slot for key in keys for slot in optimizer._slots.get(key, {}).values()]
    # Later optimizers keep lists of them, in the order of the variables.
    places, count = _places(local, optimizer)
    kept = []
    for name, values in vars(optimizer).items():
        is_list = isinstance(values, (list, tuple)) and len(values) == count
        if is_list and name not in ("_variables", "_trainable_variables"):
            kept += [values[i] for i in places if hasattr(values[i], "assign")]
    return kept


def _places(local: list[Any], optimizer: Any) -> tuple[list[int], int]:
    """The indices of local variables among those that the optimizer trains, and their number."""
    if hasattr(optimizer, "_index_dict"):  # Keras 2
        index = optimizer._index_dict
        keys = [getattr(variable, "_unique_id", None) for variable in local]
        return [index[key] for key in keys if key in index], len(index)
    trained = list(getattr(optimizer, "_trainable_variables", ()))
    ids = {id(inner_variable(variable)) for variable in local}
    return [i for i, v in enumerate(trained) if id(inner_variable(v)) in ids], len(trained)


def loader(keras: Any, backend: Any, module: str) -> Callable[..., Any]:
    """Make load_model for a module of Keras and its backend; the module named `module` exports it.

    A pickle refers to a function by its module and name. With those of this closure it would carry
    the function, and so Keras, by value.
    """

    def load_model(
        filepath: Any,
        custom_optimizers: Iterable[type] | None = None,
        custom_objects: dict[str, Any] | None = None,
        compression: Any = backend.Compression.none,
        legacy_opts: bool = False,
    ) -> Any:
        """Load a model that was saved with its optimizer, and make the optimizer a distributed one.

        filepath: as for keras.models.load_model.
        custom_optimizers: classes of optimizers that are not part of Keras.
        custom_objects: name -> other objects that are not part of Keras.
        compression: hvd.Compression.fp16 or bf16 sends gradients with 16 bits.
        legacy_opts: ignored; the optimizer has the class that it was saved with.
        """
        objects = {cls.__name__: cls for cls in custom_optimizers or ()}
        objects |= custom_objects or {}
        model = keras.models.load_model(filepath, custom_objects=objects)
        optimizer = getattr(model, "optimizer", None)
        if optimizer is not None and not is_distributed(optimizer):
            if is_keras_3(optimizer) and str(filepath).endswith((".h5", ".hdf5")):
                optimizer = _with_state_of_h5(optimizer, model, filepath)
            settings = Settings(compression=compression)
            model.optimizer = distribute_in_place(keras, optimizer, settings)
        return model

    load_model.__module__, load_model.__qualname__ = module, "load_model"
    return load_model


def _with_state_of_h5(optimizer: Any, model: Any, path: Any) -> Any:
    """Restore the state of an optimizer from an HDF5 file.

    Keras 3 builds the optimizer of such a file without variables and loses its state.
    """
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
