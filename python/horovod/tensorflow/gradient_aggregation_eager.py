# SPDX-License-Identifier: Apache-2.0
"""The helper of gradient_aggregation.py for optimizers of Keras; programs import it from here."""

from __future__ import annotations

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper, Reduce


class LocalGradientAggregationHelperEager(LocalGradientAggregationHelper):
    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Reduce,
        sparse_as_dense: bool = False,
        average_aggregated_gradients: bool = False,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
        name: str = "",
    ) -> None:
        super().__init__(
            backward_passes_per_step,
            allreduce_func,
            sparse_as_dense,
            average_aggregated_gradients,
            optimizer_type=self._OPTIMIZER_TYPE_KERAS,
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
            name=name,
        )
