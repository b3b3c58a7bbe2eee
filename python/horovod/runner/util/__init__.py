# SPDX-License-Identifier: Apache-2.0
"""Helpers of launchers, under the names by which other libraries import them."""
