# SPDX-License-Identifier: Apache-2.0
"""Helpers for functions that train with Keras."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from sparkdl.horovod import log_to_driver

__all__ = ["LogCallback"]


class LogCallback(tf.keras.callbacks.Callback):
    """Sends the progress of training to the driver. Add it to the callbacks of rank 0.

    per_batch_log: sends a message after each batch too.
    """

    def __init__(self, per_batch_log: bool = False) -> None:
        super().__init__()
        self.per_batch_log = per_batch_log
        self._epoch, self._begun = 0, 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch, self._begun = epoch, time.monotonic()
        log_to_driver(f"Epoch {epoch + 1} begins at {time.strftime('%H:%M:%S')}")

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.per_batch_log:
            log_to_driver(f"Epoch {self._epoch + 1}, batch {batch + 1}: {_shown(logs)}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        seconds = time.monotonic() - self._begun
        log_to_driver(f"Epoch {epoch + 1} ends after {seconds:.1f} s: {_shown(logs)}")


def _shown(logs: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in (logs or {}).items())


def _number(value: Any) -> str:
    try:
        return f"{float(value):.6g}"
    except (TypeError, ValueError):  # one per class, for example
        return str(value)
