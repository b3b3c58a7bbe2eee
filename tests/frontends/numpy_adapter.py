# SPDX-License-Identifier: Apache-2.0
"""No framework at all, for checks of the suite itself."""

import numpy as np
from horovod.common import arrays, basics


class Frontend:
    hvd = basics

    def start(self):
        basics.init()

    def wait_for_all(self, name):
        arrays.allreduce(np.zeros(1), name=name)
