# SPDX-License-Identifier: Apache-2.0
"""Training that continues after failures: `hvd.elastic.run` and the state that it restores.

state = hvd.elastic.TorchState(model, optimizer, epoch=0)

@hvd.elastic.run
def train(state): ...

train(state)
"""

from __future__ import annotations

from typing import Any, Callable

from horovod.common.basics import init, shutdown
from horovod.common.elastic import run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate `train(state, ...)` so that it continues from the last commit after a failure.

    Do not call collectives before `train`: a rank that joins later would call them alone. A restart
    removes process sets; register them again in a reset callback of the state.
    """
    return run_fn(func, _reset)


def _reset() -> None:
    shutdown()
    init()
