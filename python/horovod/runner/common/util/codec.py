# SPDX-License-Identifier: Apache-2.0
"""Objects as text, by cloudpickle. Loading runs the code in the text: only load trusted text."""

from __future__ import annotations

import base64
from typing import Any

from horovod.common import pickling


def dumps_base64(obj: Any, to_ascii: bool = True) -> Any:
    encoded = base64.b64encode(pickling.dumps(obj))
    return encoded.decode("ascii") if to_ascii else encoded


def loads_base64(encoded: str | bytes) -> Any:
    return pickling.loads(base64.b64decode(encoded))
