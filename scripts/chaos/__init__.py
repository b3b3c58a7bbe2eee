# SPDX-License-Identifier: Apache-2.0
"""Runs jobs with injected faults; scripts/run_chaos.py is the command."""
