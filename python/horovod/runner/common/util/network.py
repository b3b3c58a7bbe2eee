# SPDX-License-Identifier: Apache-2.0
"""Gone; docs/migrating.md says what to use instead."""

from horovod.runner.absent import gone

raise gone(__name__, "ranks exchange objects by hvd.broadcast_object and hvd.allgather_object")
