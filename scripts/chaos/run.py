# SPDX-License-Identifier: Apache-2.0
"""Runs one cell and checks the results of its ranks."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import signal
import subprocess
import time

from chaos import job, relay, settings
from chaos.cells import Cell

# A run that takes longer than this many seconds hangs. On two cores with a load of 10 the slowest
# run without a fault took a third of it.
LIMIT = 30
COLUMNS = ("hangs", "wrong sums", "wrong names", "crashes", "other")


@dataclasses.dataclass
class Outcome:
    cell: Cell
    problems: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # column, description
    skipped: str | None = None
    # A sum was changed on an unprotected connection, which is not a fault of the library.
    changed: bool = False
    # Memory was exhausted, or a bit was changed: the disturbance took effect.
    disturbed: bool = True
    seconds: float = 0
    output: str = ""

    def add(self, column: str, what: str) -> None:
        self.problems.append((column, what))


class Runner:
    def __init__(self, build: pathlib.Path):
        self.build = build
        self.library = job.Library(build)
        self.missing = {"relay": relay.why_not(), "shm": no_mount_namespaces()}

    def run(self, cell: Cell) -> Outcome:
        outcome = Outcome(cell)
        outcome.skipped = self.missing.get(cell.kind)
        if outcome.skipped:
            return outcome
        with job.Job(self.build, cell.ranks) as running:
            if cell.kind == "relay":
                self._relay(cell, running, outcome)
            elif cell.kind == "shm":
                self._small_memory(cell, running, outcome)
            else:
                self._loopback(cell, running, outcome)
            outcome.seconds = running.seconds()
            outcome.output = running.output()
        return outcome

    def _loopback(self, cell: Cell, running: job.Job, outcome: Outcome) -> None:
        secret = self.library.make_secret()
        values = job.place_of(cell.ranks) | cell.environment
        with self.library.rendezvous_server(secret, "127.0.0.1", "HOROVOD_TLS" in values) as port:
            for _ in range(cell.ranks):
                running.start_rank(cell.arguments, values, secret, port)
            disturb(cell, running)
            judge(cell, running, outcome)

    def _small_memory(self, cell: Cell, running: job.Job, outcome: Outcome) -> None:
        """Ranks in separate pid namespaces share named memory, which is in /dev/shm."""
        secret = self.library.make_secret()
        values = job.place_of(cell.ranks) | cell.environment
        with (
            small_shared_memory() as holder,
            self.library.rendezvous_server(secret, "127.0.0.1", "HOROVOD_TLS" in values) as port,
        ):
            wrapper = [
                *("nsenter", f"--mount=/proc/{holder}/ns/mnt"),
                *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
            ]
            for _ in range(cell.ranks):
                running.start_rank(cell.arguments, values, secret, port, wrapper)
            judge(cell, running, outcome)

    def _relay(self, cell: Cell, running: job.Job, outcome: Outcome) -> None:
        secret = self.library.make_secret()
        with contextlib.ExitStack() as stack:
            wire = stack.enter_context(relay.Wire(cell.change_at, cell.bit))
            values = job.place_of(cell.ranks) | {
                "HOROVOD_RENDEZVOUS": f"{wire.address(0)}:{{port}}",
                "HOROVOD_NETWORK_INTERFACES": "wire",
                "HOROVOD_HOSTNAME": "host-{parity}",
            }
            values |= cell.environment
            with wire.inside(0):
                tls = "HOROVOD_TLS" in values
                port = stack.enter_context(
                    self.library.rendezvous_server(secret, wire.address(0), tls)
                )
            for rank in range(cell.ranks):
                with wire.inside(rank % 2):
                    running.start_rank(cell.arguments, values, secret, port)
            running.wait(LIMIT)
            outcome.disturbed = wire.changed
            judge(cell, running, outcome)


def no_mount_namespaces() -> str | None:
    try:
        with small_shared_memory():
            return None
    except OSError as error:
        return f"no mount namespaces with a small /dev/shm here: {error}"


@contextlib.contextmanager
def small_shared_memory():
    """Starts a process in whose mount namespace /dev/shm has 1 MB; yields its pid."""
    script = "mount -t tmpfs -o size=1m none /dev/shm && echo ready && exec sleep 120"
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if holder.stdout.readline() != "ready\n":
            raise OSError(holder.stderr.read().strip() or "unshare --mount failed")
        yield holder.pid
    finally:
        holder.kill()
        holder.communicate()


def disturb(cell: Cell, running: job.Job) -> None:
    """Applies the disturbance to the victim and waits until all ranks have ended."""
    victim = running.ranks[cell.victim]
    signals = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "interrupt": signal.SIGINT}
    if cell.kind in signals:
        if not cell.at_start:
            running.all_ready(LIMIT)
        time.sleep(cell.delay)
        victim.send(signals[cell.kind])
    if cell.kind == "freeze":
        others = [rank for rank in running.ranks if rank is not victim]
        for rank in others:
            rank.ended(LIMIT - running.seconds())
        if not others:
            time.sleep(0.5)
        victim.send(signal.SIGCONT)
    running.wait(LIMIT)


def judge(cell: Cell, running: job.Job, outcome: Outcome) -> None:
    running.wait(LIMIT)
    crashed = False
    for number, rank in enumerate(running.ranks):
        killed = cell.kind == "kill" and number == cell.victim
        if (what := rank.first("wrong")) is not None:
            if cell.kind == "relay" and not settings.protects(cell.environment):
                outcome.changed = True
            else:
                outcome.add("wrong sums", f"rank {number}: {what}")
        elif (what := rank.first("early")) is not None:
            outcome.add("hangs", f"rank {number}: hvd_wait(-1) returned before {what} was done")
        elif (what := rank.first("handle")) is not None:
            outcome.add("other", f"rank {number}: hvd_submit failed and gave a handle: {what}")
        elif (death := rank.death()) is not None and not killed:
            outcome.add("crashes", f"rank {number}: {death}")
            crashed = True
        elif rank.process.poll() not in (0, None) and not killed:
            outcome.add("other", f"rank {number}: exit {rank.process.returncode}")
    # The other ranks may still wait for a crashed rank to start again.
    running_still = [] if crashed else [r for r in running.ranks if r.process.poll() is None]
    after = running.seconds()
    for rank in running_still:
        doing = rank.lines[-1] if rank.lines else "nothing"
        outcome.add(
            "hangs",
            f"rank {running.ranks.index(rank)} runs after {after:.0f} s; last it wrote "
            f'"{doing}"\n{job.stacks(rank)}',
        )
    if not outcome.problems and not outcome.changed:
        JUDGES[cell.kind](cell, running, outcome)


def named_rank(text: str) -> int | None:
    found = re.search(r"\brank (\d+)", text)
    return int(found[1]) if found else None


def says_that_it_left(text: str) -> bool:
    return "shut down" in text or "left the job" in text


def judge_survivors(cell: Cell, running: job.Job, outcome: Outcome, may_leave: bool) -> None:
    """Every survivor must have an error that names the victim, or that reports that a rank left."""
    for number, rank in enumerate(running.ranks):
        if number == cell.victim:
            continue
        error = rank.first("error")
        if error is None:
            outcome.add("other", f"rank {number} got no error")
            continue
        named = named_rank(error)
        may_name_no_rank = cell.at_start or (may_leave and says_that_it_left(error))
        if named != cell.victim and not (named is None and may_name_no_rank):
            outcome.add("wrong names", f"rank {number}, victim {cell.victim}: {error}")


def judge_undisturbed(cell: Cell, running: job.Job, outcome: Outcome) -> None:
    for number, rank in enumerate(running.ranks):
        if (error := rank.first("error")) is not None:
            outcome.add("other", f"rank {number}: {error}")
        elif rank.first("end") is None:
            outcome.add("other", f"rank {number} did not get to its end")


def judge_kill(cell: Cell, running: job.Job, outcome: Outcome) -> None:
    judge_survivors(cell, running, outcome, may_leave=False)


def judge_freeze(cell: Cell, running: job.Job, outcome: Outcome) -> None:
    if cell.ranks == 1:
        judge_undisturbed(cell, running, outcome)
        return
    judge_survivors(cell, running, outcome, may_leave=False)
    if running.ranks[cell.victim].first("error") is None:
        outcome.add("other", f"rank {cell.victim}, which was frozen, got no error")


def judge_interrupt(cell: Cell, running: job.Job, outcome: Outcome) -> None:
    victim = running.ranks[cell.victim]
    if victim.first("interrupted") is None or victim.first("end") is None:
        outcome.add("other", f"rank {cell.victim} was interrupted and did not leave cleanly")
    judge_survivors(cell, running, outcome, may_leave=True)


def judge_memory(cell: Cell, running: job.Job, outcome: Outcome) -> None:
    starved = running.ranks[cell.victim].first("starved")
    if starved is None:
        outcome.add("other", f"rank {cell.victim} does not say how the large operation ended")
        return
    outcome.disturbed = not starved.startswith("0")
    judge_survivors(cell, running, outcome, may_leave=True)
    for number, rank in enumerate(running.ranks):
        again = rank.first("again")
        if again is None or not again.startswith("0"):
            outcome.add("other", f"rank {number} could not start again: {again}")


def judge_relay(cell: Cell, running: job.Job, outcome: Outcome) -> None:
    """Every rank must exit by itself with correct results; it may end with an error or without."""
    if not outcome.disturbed:
        judge_undisturbed(cell, running, outcome)


JUDGES = {
    "nothing": judge_undisturbed,
    "kill": judge_kill,
    "freeze": judge_freeze,
    "memory": judge_memory,
    "shm": judge_undisturbed,
    "interrupt": judge_interrupt,
    "relay": judge_relay,
}
