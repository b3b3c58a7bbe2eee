"""The task: it says that it is there, learns its rank, and looks after the process of that rank.

The rank is a process of its own, because Spark uses Python workers again and would leave the
environment and the threads of one run to the next.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from horovod.runner import mailbox
from horovod.runner.common.util.host_hash import host_hash
from horovod.spark import meeting, task

# What one value of the store carries: pieces that are small enough to appear soon.
PIECE = 64 << 10


def serve(invitation: meeting.Invitation, index: int, _: Iterator[Any]) -> Iterator[int]:
    """Be the task of this index to its end; yields the rank that it has been."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.attemptNumber()
    box = mailbox.Box(invitation.addresses, invitation.secret)
    arrival = meeting.Arrival(host_hash(), socket.gethostname(), attempt)
    if attempt > 0:  # the first one is gone, and with it its rank
        box.put(meeting.FAILED, meeting.Failure(-1, arrival.name, f"task {index} was lost"))
        raise RuntimeError("Horovod cannot start a task of a run again")
    box.put(meeting.ARRIVAL.format(index), arrival)
    there, place = box.get(meeting.PLACE.format(index), invitation.start_seconds)
    if not there:
        raise RuntimeError(
            f"task {index} was not told its rank within {invitation.start_seconds:g} s"
        )
    resources = context.resources()
    devices = list(resources["gpu"].addresses) if "gpu" in resources else []
    ended = _run_rank(invitation, box, place, devices)
    if ended:
        box.put(meeting.FAILED, meeting.Failure(place.rank, arrival.name, ended))
    yield place.rank


def _environment(
    invitation: meeting.Invitation, place: meeting.Place, devices: list[str]
) -> dict[str, str]:
    merged: dict[str, str | None] = {**os.environ, **invitation.environment}
    environment = {name: value for name, value in merged.items() if value is not None}
    port = invitation.addresses.rpartition(":")[2]
    return {
        **environment,
        **place.settings(),
        "HOROVOD_HOSTNAME": host_hash(),
        "HOROVOD_RENDEZVOUS": invitation.addresses,
        "_HOROVOD_SECRET_KEY": invitation.secret,
        mailbox.PORT: port,
        mailbox.SECRET: invitation.secret,
        task.DEVICES: json.dumps(devices),
        # Modules that were sent with the job.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def _run_rank(
    invitation: meeting.Invitation,
    box: mailbox.Box,
    place: meeting.Place,
    devices: list[str],
) -> str:
    """How the process of a rank ended, if not well."""
    piped = subprocess.PIPE if invitation.wants_output else None
    process = subprocess.Popen(
        [invitation.executable or sys.executable, "-m", "horovod.spark.task.exec_fn"],
        env=_environment(invitation, place, devices),
        stdin=subprocess.PIPE,  # which closes with this process, whatever ends it
        stdout=piped,
        stderr=piped,
        start_new_session=True,
    )
    pumps = []
    if invitation.wants_output:
        for number, stream in ((1, process.stdout), (2, process.stderr)):
            # A connection is for one thread.
            own = mailbox.Box(invitation.addresses, invitation.secret)
            pump = threading.Thread(target=_pump, args=(stream, own, place.rank, number))
            pump.start()
            pumps.append(pump)
    code = process.wait()
    assert process.stdin is not None
    process.stdin.close()  # ends what the rank has left behind
    for pump in pumps:
        pump.join()
    if code < 0:
        return f"by signal {signal.Signals(-code).name}"
    return f"with exit code {code}" if code else ""


def _pump(stream: BinaryIO, box: mailbox.Box, rank: int, number: int) -> None:
    piece = 0
    while data := stream.read1(PIECE):  # type: ignore[attr-defined]
        box.put(meeting.OUTPUT.format(f"{rank}.{number}", piece), data)
        piece += 1
    box.put(meeting.OUTPUT.format(f"{rank}.{number}", piece), None)
