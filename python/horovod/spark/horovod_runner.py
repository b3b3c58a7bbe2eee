# SPDX-License-Identifier: Apache-2.0
"""HorovodRunner: runs a training function on Spark executors or in processes of the driver."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Callable

from horovod.runner import run as run_here
from horovod.runner.options import OutputStreams, RunOptions
from horovod.spark import runner

__all__ = ["HorovodRunner"]

VERBOSITIES = ("all", "log_callback_only")


class HorovodRunner:
    """Runs a training function on several ranks.

    np: above 0, the number of Spark tasks, which start together. Below 0, -np processes on the
        driver. 0, which is deprecated, means all task slots of Spark.
    driver_log_verbosity: "all" shows the output of the ranks on the driver; "log_callback_only"
        shows only messages of sparkdl.horovod.log_to_driver and LogCallback.

    Raises ValueError for other arguments.
    """

    def __init__(self, np: int, driver_log_verbosity: str = "log_callback_only") -> None:
        if driver_log_verbosity not in VERBOSITIES:
            raise ValueError(
                f"driver_log_verbosity has to be one of {', '.join(VERBOSITIES)}, "
                f"not {driver_log_verbosity!r}"
            )
        if isinstance(np, bool) or not isinstance(np, int):
            raise ValueError(f"np has to be a whole number, not {np!r}")
        self.num_processor = np
        self.driver_log_verbosity = driver_log_verbosity

    def run(self, main: Callable[..., Any], **kwargs: Any) -> Any:
        """Call main(**kwargs) on every rank and return the result of rank 0.

        cloudpickle serializes `main` and `kwargs`. So `main` should itself import the modules that
        it needs.
        Raises RuntimeError if a rank fails, as horovod.spark.run does.
        """
        if self.num_processor < 0:
            return run_here(main, kwargs=kwargs, num_proc=-self.num_processor)[0]
        if self.num_processor == 0:
            warnings.warn(
                "HorovodRunner(np=0) is deprecated; pass the number of processes",
                DeprecationWarning,
                stacklevel=2,
            )
        shows_all = self.driver_log_verbosity == "all"
        options = RunOptions(
            num_proc=self.num_processor or None,
            environment=_settings_of_the_driver(),
            output=OutputStreams(
                stdout=sys.stdout if shows_all else None,
                stderr=sys.stderr if shows_all else None,
                messages=sys.stdout,
            ),
        )
        return runner.run_ranks(main, (), kwargs, options)[0]


def _settings_of_the_driver() -> dict[str, str | None]:
    """The variables HOROVOD_* of the driver, such as HOROVOD_TIMELINE."""
    return {name: value for name, value in os.environ.items() if name.startswith("HOROVOD_")}
