# SPDX-License-Identifier: Apache-2.0
"""An empty package: programs import it to check that Horovod is complete."""
