# SPDX-License-Identifier: Apache-2.0
"""Where a training runs. Any object with these two methods can be one."""

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
        """Call fn(*args, **kwargs) on every rank; results by rank.

        env: variables of the ranks, besides those of the backend.
        """

    @abc.abstractmethod
    def num_processes(self) -> int:
        """How many ranks there are."""


class SparkBackend(Backend):
    """Ranks in tasks of Spark, by horovod.spark.run, which gets `run_kwargs`.

    env: variables of the ranks; by default those of the driver that mean something elsewhere, of
        which those that choose GPUs are none.
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
