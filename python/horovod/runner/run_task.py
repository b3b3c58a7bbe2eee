# SPDX-License-Identifier: Apache-2.0
"""What run() starts as a rank: fetches the function, calls it and sends back what came of it."""

from __future__ import annotations

import sys

from horovod.runner import mailbox
from horovod.runner.common.util import env


def main() -> int:
    box = mailbox.of_rank()
    rank, size = env.get_env_rank_and_size()
    box.put("size", size)
    try:
        # Fails where a module that the function comes from is not installed: the caller hears it.
        _, (func, args, kwargs) = box.get("func")
        result = mailbox.Result(func(*args, **kwargs))
    except Exception as error:
        result = mailbox.Result(error=error)
    try:
        box.put(f"result/{rank}", result)
    except Exception as error:  # a value that cannot be pickled
        result = mailbox.Result(error=error)
        box.put(f"result/{rank}", result)
    if result.error is not None:
        print(result.traceback, file=sys.stderr, flush=True)
    return 0 if result.error is None else 1


if __name__ == "__main__":
    sys.exit(main())
