# SPDX-License-Identifier: Apache-2.0
"""Helpers of launchers, under the names that libraries import them by."""
