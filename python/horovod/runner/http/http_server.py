# SPDX-License-Identifier: Apache-2.0
"""Not available yet; docs/migrating.md lists alternatives."""

from horovod.runner.absent import coming

raise coming(
    __name__,
    "horovodrun and horovod.run(func, num_proc=4) run a rendezvous server for their ranks",
)
