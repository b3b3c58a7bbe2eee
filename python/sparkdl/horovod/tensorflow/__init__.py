# SPDX-License-Identifier: Apache-2.0
"""Helpers for functions that train with TensorFlow."""
