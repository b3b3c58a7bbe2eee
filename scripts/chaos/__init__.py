# SPDX-License-Identifier: Apache-2.0
"""Jobs that are disturbed on purpose; scripts/run_chaos.py runs them."""
