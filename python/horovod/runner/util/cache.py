# SPDX-License-Identifier: Apache-2.0
"""Gone; docs/migrating.md says what to use instead."""

from horovod.runner.absent import gone

raise gone(
    __name__, "horovodrun remembers nothing about hosts; functools.lru_cache remembers results"
)
