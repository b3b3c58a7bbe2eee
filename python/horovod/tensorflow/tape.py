# SPDX-License-Identifier: Apache-2.0
"""Gradient tapes that reduce gradients across ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from horovod.common.basics import Average
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import groups_of
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.functions import _plain
from horovod.tensorflow.gradients import Groups, check_reduction, reduce_gradients


class _DistributedGradientTape(tf.GradientTape):
    """A copy of the user's tape that reduces gradients; DistributedGradientTape makes it."""

    def __init__(self, tape: tf.GradientTape, scale_local_gradients: bool, how: dict[str, Any]):
        # Share the recording with the user's tape.
        self.__dict__.update(tape.__dict__)
        self._hvd_how = how
        self._hvd_scale_local_gradients = scale_local_gradients
        self._hvd_local_sources: dict[Any, Any] = {}

    def register_local_source(self, source: Any) -> None:
        """Exclude a variable from the reduction; its gradient stays on this rank."""
        self._hvd_local_sources[_plain(source).ref()] = source

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
        **options: Any,
    ) -> Any:
        """As tf.GradientTape.gradient, with gradients that are reduced across ranks.

        use_generic_names: name gradients by their place in `sources`. Needed if only some ranks
            trace a function again, which changes the names of their tensors.
        """
        gradients = super().gradient(target, sources, output_gradients, **options)
        flat = tf.nest.flatten(gradients)
        reduced = reduce_gradients(
            flat,
            variables=tf.nest.flatten(sources),
            local_variables=self._hvd_local_sources.values(),
            scale_local_gradients=self._hvd_scale_local_gradients,
            use_generic_names=use_generic_names,
            **self._hvd_how,
        )
        return tf.nest.pack_sequence_as(gradients, reduced)

    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, **options: Any
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Two lists of pairs (variable, gradient): the local ones, then the reduced ones."""
        gradients = self.gradient(target, sources, output_gradients, **options)
        pairs = list(zip(tf.nest.flatten(sources), tf.nest.flatten(gradients)))
        kept = self._hvd_local_sources
        local = [pair for pair in pairs if _plain(pair[0]).ref() in kept]
        return local, [pair for pair in pairs if _plain(pair[0]).ref() not in kept]


def DistributedGradientTape(  # noqa: N802
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> tf.GradientTape:
    """Make a tape with the recording of `gradtape` that reduces gradients across ranks.

    gradtape: a tf.GradientTape, or an instance of a subclass.
    device_dense, device_sparse: the device for dense and for sparse gradients.
    compression: hvd.Compression.fp16 or bf16 sends floats with 16 bits.
    sparse_as_dense: turn sparse gradients into dense ones.
    op: hvd.Average, Sum or Adasum.
    gradient_predivide_factor: f divides gradients by f before the sum and by size / f after it.
        Needs op=hvd.Average.
    num_groups: deprecated; use groups.
    groups: the number of groups to reduce gradients in, or lists of variables, one per group.
    process_set: the ranks that train together.
    scale_local_gradients: divide gradients of variables that `register_local_source` excludes by
        the number of ranks.

    Raises ValueError for arguments that do not fit together.
    """
    groups = groups_of(num_groups, groups)
    check_reduction(op, gradient_predivide_factor, groups)
    how = {
        "device_dense": device_dense,
        "device_sparse": device_sparse,
        "compression": compression,
        "sparse_as_dense": sparse_as_dense,
        "op": op,
        "gradient_predivide_factor": gradient_predivide_factor,
        "groups": groups,
        "process_set": process_set,
    }
    kind: type = _DistributedGradientTape
    if type(gradtape) is not tf.GradientTape:  # a subclass of the user
        kind = type(type(gradtape).__name__, (kind, type(gradtape)), {})
    return kind(gradtape, scale_local_gradients, how)


def PartialDistributedGradientTape(  # noqa: N802
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> tf.GradientTape:
    """DistributedGradientTape with local layers: their gradients stay on each rank.

    local_layers: a Keras layer or several. The other arguments are those of
        DistributedGradientTape.
    """
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in weights_of(local_layers):
        tape.register_local_source(variable)
    return tape


def weights_of(layers: Any) -> list[Any]:
    """The trainable weights of a Keras layer or of several; ValueError for other objects."""
    if layers is None:
        return []
    weights = []
    for layer in layers if isinstance(layers, Iterable) else [layers]:
        if not hasattr(layer, "trainable_weights"):
            raise ValueError(f"local_layers has to hold layers of Keras, not {layer!r}")
        weights += layer.trainable_weights
    return weights
