# SPDX-License-Identifier: Apache-2.0
"""HorovodRunner, under the name that its users know."""

from horovod.spark.horovod_runner import HorovodRunner

__all__ = ["HorovodRunner"]
