# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs, for launchers that are written in Python: not available yet."""
