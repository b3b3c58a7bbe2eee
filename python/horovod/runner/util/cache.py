# SPDX-License-Identifier: Apache-2.0
"""Removed; docs/migrating.md lists replacements."""

from horovod.runner.absent import gone

raise gone(__name__, "horovodrun keeps no cache of hosts; functools.lru_cache caches results")
