# SPDX-License-Identifier: Apache-2.0
"""Code that all kinds of training on Spark share."""
