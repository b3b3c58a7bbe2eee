# SPDX-License-Identifier: Apache-2.0
"""Whether there is a jsrun. `horovodrun --jsrun` starts ranks with it."""

from __future__ import annotations

import shutil


def is_jsrun_installed() -> bool:
    return shutil.which("jsrun") is not None
