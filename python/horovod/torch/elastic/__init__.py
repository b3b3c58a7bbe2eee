# SPDX-License-Identifier: Apache-2.0
"""Training that survives failures: `hvd.elastic.run`, with what it goes on from.

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
    """Decorate `train(state, ...)`, so that it goes on from the last commit after a failure.

    No collective may come before it that not every rank takes part in, new ones included. Process
    sets have to be registered again after a new start, in a reset callback of the state.
    """
    return run_fn(func, _reset)


def _reset() -> None:
    shutdown()
    init()
