# SPDX-License-Identifier: Apache-2.0
"""The one binding over hvd.h, the C interface of the library; every front end stands on it."""

from horovod._core._native import *  # noqa: F403
