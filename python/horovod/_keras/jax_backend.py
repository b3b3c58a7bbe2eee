# SPDX-License-Identifier: Apache-2.0
"""Gradients of Keras with JAX; implements horovod._keras.backends.Backend.

The compiled step calls back into Python once, for all gradients. The call waits for the other
ranks, so the reduction does not overlap with computation.
"""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

from horovod._keras.settings import Settings
from horovod.common import arrays
from horovod.common.basics import Min
from horovod.common.compression import Compressor, NoneCompressor
from horovod.common.groups import check_reduction, grouped

tensor = array = np.asarray
result = np.asarray  # not an array of JAX, which would turn float64 into float32
scratch = contextlib.nullcontext


def current_graph() -> Any:
    """A step is traced as a whole, so one object identifies all code."""
    return Accumulator


class _CastCompressor(Compressor):
    dtype: Any

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        if not jax.numpy.issubdtype(tensor.dtype, jax.numpy.floating):
            return tensor, None
        return tensor.astype(cls.dtype), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor if ctx is None else tensor.astype(ctx)


class FP16Compressor(_CastCompressor):
    """Sends floats as float16: three decimal digits, values up to 65504."""

    dtype = np.float16


class BF16Compressor(_CastCompressor):
    """Sends floats as bfloat16: two decimal digits, the range of float32."""

    dtype = jax.numpy.bfloat16


class Compression:
    """The choices for the argument `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def check(settings: Settings) -> None:
    check_reduction(settings.op, settings.gradient_predivide_factor, settings.groups, id)
    if settings.backward_passes_per_step > 1:
        raise ValueError(
            "backward_passes_per_step cannot be used with JAX, whose compiled step can change "
            "variables of Keras only; pass gradient_accumulation_steps to the optimizer of Keras"
        )


def _on_host(function: Any, values: list[Any]) -> list[Any]:
    """Call a function of numpy arrays from compiled code; results have the shapes of `values`."""
    shapes = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in values]
    # Ordered: a step may contain two such calls, and all ranks have to make them in the same order.
    return list(io_callback(function, shapes, *values, ordered=True))


def reduce(
    gradients: list[Any],
    variables: list[Any],
    settings: Settings,
    name: str | None,
    local_variables: list[Any],
) -> list[Any]:
    if not settings.is_distributed():
        return gradients
    results, shared = settings.set_apart(gradients, variables, local_variables)
    if not shared:
        return results
    packed = [settings.compression.compress(results[i]) for i in shared]
    parts = [list(shared)]
    if settings.groups:
        parts = grouped(list(shared), settings.groups, variables, id)
    factor = settings.gradient_predivide_factor

    def on_host(*values: Any) -> list[Any]:
        by_place = dict(zip(shared, values))
        for part in parts:
            reduced = arrays.grouped_allreduce(
                [by_place[i] for i in part],
                settings.name_of(name, shared[part[0]]),
                settings.op,
                1.0 / factor,
                factor,
                settings.process_set,
            )
            by_place.update(zip(part, reduced))
        return [by_place[i] for i in shared]

    reduced = _on_host(on_host, [value for value, _ in packed])
    for i, (_, context), value in zip(shared, packed, reduced):
        results[i] = settings.compression.decompress(value, context)
    return results


def all_true(flag: Any, settings: Settings, name: str) -> Any:
    """Whether a condition holds on every rank."""
    if not settings.is_distributed():
        return flag

    def on_host(ones: Any) -> list[Any]:
        return [arrays.allreduce(ones, name, Min, process_set=settings.process_set)]

    return _on_host(on_host, [jax.numpy.asarray(flag).astype("int32")])[0].astype(bool)


class Accumulator:
    """Not supported; check() rejects several passes."""
