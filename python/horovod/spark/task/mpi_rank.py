"""The process of a rank that mpirun's daemon has started in an executor."""

from __future__ import annotations

import os
import sys

from horovod.runner import mailbox, run_task
from horovod.runner.common.util import env
from horovod.spark import meeting


def main() -> int:
    rank, _ = env.get_env_rank_and_size()
    box = mailbox.Box(os.environ["HOROVOD_RENDEZVOUS"], os.environ[mailbox.SECRET])
    _, places = box.get(meeting.PLACES)
    os.environ.update(places[rank].settings())
    return run_task.main()


if __name__ == "__main__":
    sys.exit(main())
