# SPDX-License-Identifier: Apache-2.0
"""Objects as text, by cloudpickle. Who loads a text runs what is in it: only load your own."""

from __future__ import annotations

import base64
from typing import Any


def dumps_base64(obj: Any, to_ascii: bool = True) -> Any:
    import cloudpickle  # it takes 30 ms

    encoded = base64.b64encode(cloudpickle.dumps(obj))
    return encoded.decode("ascii") if to_ascii else encoded


def loads_base64(encoded: str | bytes) -> Any:
    import cloudpickle

    return cloudpickle.loads(base64.b64decode(encoded))
