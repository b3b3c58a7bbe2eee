# SPDX-License-Identifier: Apache-2.0
"""Gone; docs/migrating.md says what to use instead."""

from horovod.runner.absent import gone

raise gone(__name__, "horovodrun looks at hosts by itself; horovodrun --doctor shows what it finds")
