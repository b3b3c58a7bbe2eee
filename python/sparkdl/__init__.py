# SPDX-License-Identifier: Apache-2.0
"""HorovodRunner: runs a training function on Spark executors or in processes of the driver."""

from sparkdl.horovod.runner_base import HorovodRunner

__all__ = ["HorovodRunner"]
