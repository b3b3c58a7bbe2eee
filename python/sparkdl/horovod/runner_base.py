# SPDX-License-Identifier: Apache-2.0
"""HorovodRunner, under the module name that its users import."""

from horovod.spark.horovod_runner import HorovodRunner

__all__ = ["HorovodRunner"]
