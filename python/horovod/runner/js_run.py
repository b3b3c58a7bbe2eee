# SPDX-License-Identifier: Apache-2.0
"""Detects jsrun, with which `horovodrun --jsrun` starts ranks."""

from __future__ import annotations

import shutil


def is_jsrun_installed() -> bool:
    return shutil.which("jsrun") is not None
