# SPDX-License-Identifier: Apache-2.0
"""Removed; docs/migrating.md lists replacements."""

from horovod.runner.absent import gone

raise gone(
    __name__,
    "horovodrun reaches hosts by ssh; see --ssh-port, --ssh-identity-file and --ssh-args",
)
