# SPDX-License-Identifier: Apache-2.0
"""What runs on the executors."""

from __future__ import annotations

import json
import os

from horovod.spark import protocol

__all__ = ["get_available_devices"]


def get_available_devices() -> list[str]:
    """The GPUs that Spark has assigned to the task of this rank; none without GPU scheduling."""
    return json.loads(os.environ.get(protocol.DEVICES, "[]"))
