# SPDX-License-Identifier: Apache-2.0
"""Replaces ssh as the remote shell of mpirun: runs a command in an executor, and waits for its end.

remote_shell.py HOST COMMAND...
"""

from __future__ import annotations

import os
import sys

from horovod.runner import rendezvous
from horovod.spark import protocol

WAIT_SECONDS = 60.0


def main(host: str, words: list[str]) -> int:
    client = rendezvous.RendezvousClient(
        os.environ[protocol.RENDEZVOUS], os.environ[protocol.SECRET]
    )
    # mpirun quotes the words for a shell, as for ssh.
    client.put(protocol.COMMAND.format(host), " ".join(words))
    name = protocol.COMMAND_RESULT.format(host)
    there, result = client.get(name, WAIT_SECONDS)
    while not there:  # the end of mpirun ends this process
        there, result = client.get(name, WAIT_SECONDS)
    sys.stderr.write(result.output)
    return result.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
