# SPDX-License-Identifier: Apache-2.0
"""Backends of Spark runs: objects that run a training function on ranks.

Any object with the methods of Backend can be one. They have no relation to the engine's backends.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping
from typing import Any, Callable

from horovod.runner.common.util.env import is_exportable
from horovod.spark import cluster, runner

__all__ = ["Backend", "SparkBackend"]


class Backend(abc.ABC):
    """Runs a function on ranks."""

    @abc.abstractmethod
    def run(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        env: Mapping[str, str | None] | None = None,
    ) -> list[Any]:
        """Call fn(*args, **kwargs) on every rank, and return the results in order of ranks.

        env: variables of the ranks in addition to those of the backend; None unsets one.
        """

    @abc.abstractmethod
    def num_processes(self) -> int:
        """The number of ranks."""


class SparkBackend(Backend):
    """Runs ranks in Spark tasks, through horovod.spark.run.

    num_proc: number of ranks; by default the number of Spark's task slots.
    env: variables of the ranks. By default those of the driver, without the ones that are valid on
        one host only, such as CUDA_VISIBLE_DEVICES.
    run_kwargs: further arguments of horovod.spark.run.
    """

    def __init__(
        self,
        num_proc: int | None = None,
        env: Mapping[str, str | None] | None = None,
        **run_kwargs: Any,
    ) -> None:
        # Subclasses of users read these three names.
        self._num_proc = num_proc
        self._env = env
        self._kwargs = run_kwargs

    def run(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        env: Mapping[str, str | None] | None = None,
    ) -> list[Any]:
        own: Mapping[str, str | None] = os.environ if self._env is None else self._env
        environment = {
            name: value for name, value in {**own, **(env or {})}.items() if is_exportable(name)
        }
        return runner.run(
            fn, args, kwargs, num_proc=self._num_proc, env=environment, **self._kwargs
        )

    def num_processes(self) -> int:
        return self._num_proc or cluster.active().default_size()
