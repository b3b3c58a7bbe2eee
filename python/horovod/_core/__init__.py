# SPDX-License-Identifier: Apache-2.0
"""The binding to hvd.h, the C interface of the library. Every front end uses it."""

from horovod._core._native import *  # noqa: F403
