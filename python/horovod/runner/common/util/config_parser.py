# SPDX-License-Identifier: Apache-2.0
"""Removed; docs/migrating.md lists replacements."""

from horovod.runner.absent import gone

raise gone(__name__, "horovodrun --config-file reads the file, and horovodrun sets the variables")
