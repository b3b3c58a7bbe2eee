# SPDX-License-Identifier: Apache-2.0
"""Objects as bytes, by cloudpickle.

Loading a pickle runs the code in it: only load bytes that are known to come from this job.
Importing cloudpickle takes 30 ms. The functions import it, so that scripts without objects do not
pay for it.
"""

from __future__ import annotations

from typing import Any


def dumps(obj: Any) -> bytes:
    import cloudpickle

    return cloudpickle.dumps(obj)


def loads(data: Any) -> Any:
    import cloudpickle

    return cloudpickle.loads(data)
