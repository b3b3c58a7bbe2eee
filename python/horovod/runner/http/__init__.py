# SPDX-License-Identifier: Apache-2.0
"""The rendezvous of ranks that another launcher starts: not available yet."""
