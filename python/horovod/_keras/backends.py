# SPDX-License-Identifier: Apache-2.0
"""The interface between Keras and the framework that computes its gradients.

The package of each framework implements it, and horovod._keras loads the implementation by name.
So the packages of the frameworks may import horovod._keras, which imports none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from horovod._keras.settings import Settings

# The backend of Keras -> the module that implements `Backend` for it.
_MODULES = {
    "jax": "horovod._keras.jax_backend",
    "tensorflow": "horovod.tensorflow.keras_backend",
    "torch": "horovod.torch.keras_backend",
}


class Accumulator(Protocol):
    """Adds up the gradients of `passes` backward passes.

    average: divide the sums by the number of passes.
    sparse_as_dense: turn sparse gradients into dense ones before they are added.
    """

    def __init__(self, passes: int, average: bool, sparse_as_dense: bool) -> None: ...

    def add(
        self,
        gradients: list[Any],
        variables: list[Any],
        reduce: Callable[[list[Any], list[Any]], list[Any]],
    ) -> list[Any]:
        """Add the gradients of one pass; returns the sums, after the last pass the reduced ones."""

    def step(self, ready: list[Any], apply: Callable[[], Any], skip: Callable[[], Any]) -> Any:
        """Call `apply` if the last pass has been added, otherwise `skip`."""

    def forget(self) -> None:
        """Drop the passes of a step that has begun."""


class Backend(Protocol):
    """What a module in `_MODULES` provides. "Tensor" is a tensor of its framework."""

    Accumulator: type[Accumulator]
    Compression: Any  # the choices for the argument `compression`

    def check(self, settings: Settings) -> None:
        """Raise ValueError for settings that this framework does not support."""

    def reduce(
        self,
        gradients: list[Any],
        variables: list[Any],
        settings: Settings,
        name: str | None,
        local_variables: list[Any],
    ) -> list[Any]:
        """The reduced gradients, in their order; those of local variables stay on this rank."""

    def all_true(self, flag: Any, settings: Settings, name: str) -> Any:
        """Whether a condition holds on every rank."""

    def current_graph(self) -> Any:
        """An object that identifies the graph that is being built."""

    def tensor(self, value: Any) -> Any:
        """A value of any kind as a tensor."""

    def array(self, value: Any) -> np.ndarray:
        """A value of any kind as an array of the dtype that the framework gives it."""

    def result(self, value: np.ndarray) -> Any:
        """What a collective returns to the user for an array."""

    def scratch(self) -> AbstractContextManager[None]:
        """A context in which tensors can be created and read at once."""


def backend_of(keras: Any) -> Backend:
    """The implementation for the framework that this Keras module works with."""
    name = keras.backend.backend()
    if name not in _MODULES:
        raise ImportError(f"Horovod does not support Keras with the backend {name}")
    return importlib.import_module(_MODULES[name])  # type: ignore[return-value]
