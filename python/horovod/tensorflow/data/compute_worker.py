# SPDX-License-Identifier: Apache-2.0
"""Runs a rank of a compute job, which prepares data for a training job.

    horovodrun -np 4 python -m horovod.tensorflow.data.compute_worker FILE

It ends when a training rank calls `config.compute_client().shutdown()`, or when horovodrun ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Sequence

import horovod.tensorflow as hvd
from horovod.tensorflow.data.compute_service import (
    TfDataServiceConfig,
    compute_service,
    compute_worker_fn,
)


def main(
    configfile: str, dispatchers: int = 1, dispatcher_side: str = "compute", timeout: float = 60
) -> None:
    """Serve until a client shuts the service down. Rank 0 writes `configfile` and removes it.

    Raises ValueError if the number of ranks is not a multiple of `dispatchers`.
    """
    hvd.init()
    if dispatchers < 1 or hvd.size() % dispatchers:
        raise ValueError(
            "the number of ranks has to be a multiple of the number of dispatchers; "
            f"{hvd.size()} is not a multiple of {dispatchers}"
        )
    if hvd.rank() != 0:
        compute_worker_fn(TfDataServiceConfig.from_dict(hvd.broadcast_object(None)))
        return
    workers = hvd.size() // dispatchers
    with compute_service(dispatchers, workers, dispatcher_side, timeout) as config:
        hvd.broadcast_object(config.to_dict())
        config.write(configfile)
        try:
            compute_worker_fn(config)
        finally:
            # A later training job must not read the address of a service that has ended.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(configfile)


def run(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m horovod.tensorflow.data.compute_worker",
        description="Prepares data for a training job, by TensorFlow's tf.data service.",
    )
    parser.add_argument(
        "configfile",
        help="file that tells the training job how to reach this job; holds a key",
    )
    parser.add_argument("--dispatchers", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--dispatcher-side",
        choices=["compute", "training"],
        default="compute",
        help="the job whose ranks run the dispatchers; default: %(default)s",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60,
        help="seconds to wait for dispatchers and workers; default: %(default)s",
    )
    options = parser.parse_args(arguments)
    main(options.configfile, options.dispatchers, options.dispatcher_side, options.timeout)


if __name__ == "__main__":
    run()
