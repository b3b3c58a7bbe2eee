# SPDX-License-Identifier: Apache-2.0
"""For functions that train with TensorFlow."""
