# SPDX-License-Identifier: Apache-2.0
"""Programs import this package to see whether Horovod is complete; it has no modules any more."""
