# SPDX-License-Identifier: Apache-2.0
"""The process of a rank of run(): fetches the function, calls it, and sends back the result."""

from __future__ import annotations

import sys

from horovod.runner import rendezvous
from horovod.runner.common.util import env


def main() -> int:
    client = rendezvous.client_of_rank()
    rank, size = env.get_env_rank_and_size()
    client.put("size", size)
    try:
        # Fails if the module of the function is not installed here; the caller gets that error.
        _, (func, args, kwargs) = client.get("func")
        result = rendezvous.Result(func(*args, **kwargs))
    except Exception as error:
        result = rendezvous.Result(error=error)
    try:
        client.put(f"result/{rank}", result)
    except Exception as error:  # a value that cannot be pickled
        result = rendezvous.Result(error=error)
        client.put(f"result/{rank}", result)
    if result.error is not None:
        print(result.traceback, file=sys.stderr, flush=True)
    return 0 if result.error is None else 1


if __name__ == "__main__":
    sys.exit(main())
