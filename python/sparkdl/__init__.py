# SPDX-License-Identifier: Apache-2.0
"""HorovodRunner: a function that trains, on executors of Spark or in processes of the driver."""

from sparkdl.horovod.runner_base import HorovodRunner

__all__ = ["HorovodRunner"]
