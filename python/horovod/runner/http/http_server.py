# SPDX-License-Identifier: Apache-2.0
"""Not there yet; docs/migrating.md says what to use instead."""

from horovod.runner.absent import coming

raise coming(
    __name__,
    "horovodrun and horovod.run(func, num_proc=4) serve the rendezvous of their ranks",
)
