# SPDX-License-Identifier: Apache-2.0
"""What mpirun calls in place of ssh: has a command run in an executor, and ends when it does.

remote_shell.py HOST COMMAND...
"""

from __future__ import annotations

import os
import sys

from horovod.runner import mailbox
from horovod.spark import meeting

WAIT_SECONDS = 60.0


def main(host: str, words: list[str]) -> int:
    box = mailbox.Box(os.environ[meeting.STORE], os.environ[meeting.SECRET])
    # The words are quoted for a shell, as ssh would hand them to one.
    box.put(meeting.ORDER.format(host), " ".join(words))
    name = meeting.OBEYED.format(host)
    there, obeyed = box.get(name, WAIT_SECONDS)
    while not there:  # mpirun's end ends this process
        there, obeyed = box.get(name, WAIT_SECONDS)
    sys.stderr.write(obeyed.output)
    return obeyed.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
