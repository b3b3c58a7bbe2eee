# SPDX-License-Identifier: Apache-2.0
"""What front ends share."""
