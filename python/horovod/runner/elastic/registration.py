# SPDX-License-Identifier: Apache-2.0
"""Not there yet; docs/migrating.md says what to use instead."""

from horovod.runner.absent import coming

raise coming(__name__, "hvd.elastic.run goes on after a failure in jobs of a fixed size")
