# SPDX-License-Identifier: Apache-2.0
"""Processes that prepare data for those that train."""
