# SPDX-License-Identifier: Apache-2.0
"""Removed; docs/migrating.md lists replacements."""

from horovod.runner.absent import gone

raise gone(__name__, "ranks exchange objects by hvd.broadcast_object and hvd.allgather_object")
