# SPDX-License-Identifier: Apache-2.0
"""Not available yet; docs/migrating.md lists alternatives."""

from horovod.runner.absent import coming

raise coming(__name__, "hvd.elastic.run continues after a failure in jobs of a fixed size")
