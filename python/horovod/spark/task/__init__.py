# SPDX-License-Identifier: Apache-2.0
"""Code that runs on the executors."""

from __future__ import annotations

import json
import os

from horovod.spark import protocol

__all__ = ["get_available_devices"]


def get_available_devices() -> list[str]:
    """Return the addresses of the GPUs that Spark assigned to this rank's task.

    The list is empty without GPU scheduling.
    """
    return json.loads(os.environ.get(protocol.DEVICES, "[]"))
