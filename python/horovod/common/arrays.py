# SPDX-License-Identifier: Apache-2.0
"""Collectives on numpy arrays, for code that serves no framework or several.

All functions wait for their result, and accept what numpy.array accepts. An array of an unsupported
dtype is a ValueError. A failure of the job is a HorovodInternalError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from horovod import _core
from horovod.common.process_sets import ProcessSet, global_process_set

_NAMES = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "bfloat16", "float32", "float64"),
)
_DTYPES = {name: getattr(_core, name.upper()) for name in _NAMES}


def _copied(value: Any) -> np.ndarray:
    """A copy as a contiguous array. In-place collectives write their result into it."""
    array = np.array(value, order="C")
    if array.dtype.name not in _DTYPES:
        raise ValueError(f"an array of {array.dtype} is not supported")
    return array


def _view(array: np.ndarray, in_place: bool = True) -> Any:
    address = array.ctypes.data
    return address, address if in_place else None, _DTYPES[array.dtype.name], array.shape


def _run(
    collective: int,
    label: str,
    name: str | None,
    arrays: np.ndarray | list[np.ndarray],
    process_set: ProcessSet,
    op: int = _core.SUM,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    root_rank: int = 0,
    result: Any = None,
) -> Any:
    in_place = result is None
    if isinstance(arrays, list):
        views: Any = [_view(array, in_place) for array in arrays]
    else:
        views = _view(arrays, in_place)
    handle = _core.submit(
        collective,
        label,
        name,
        views,
        process_set=process_set.process_set_id,
        keep=arrays,
        result=arrays if in_place else result,
        op=op,
        prescale=prescale_factor,
        postscale=postscale_factor,
        root=root_rank,
        will_wait=True,
    )
    return _core.wait(handle)


def allreduce(
    value: Any,
    name: str | None = None,
    op: int = _core.AVERAGE,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> np.ndarray:
    """Return the reduction of all ranks' values.

    name: of the operation, the same on all ranks; by default operations are numbered.
    op: Average, Sum, Min, Max, Product or Adasum, as numbers of `_core`.
    prescale_factor, postscale_factor: multiply the values before and after the reduction.
    """
    factors = prescale_factor, postscale_factor
    return _run(_core.ALLREDUCE, "allreduce", name, _copied(value), process_set, op, *factors)


def grouped_allreduce(
    values: Sequence[Any],
    name: str | None = None,
    op: int = _core.AVERAGE,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[np.ndarray]:
    """Return the reductions of several values, which the ranks reduce as one operation."""
    arrays = [_copied(value) for value in values]
    if not arrays:
        return arrays
    factors = prescale_factor, postscale_factor
    return _run(_core.ALLREDUCE, "grouped_allreduce", name, arrays, process_set, op, *factors)


def grouped_broadcast(
    values: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[np.ndarray]:
    """Return the values of the rank `root_rank`, which counts in the whole job."""
    arrays = [_copied(value) for value in values]
    if not arrays:
        return arrays
    return _run(
        _core.BROADCAST, "grouped_broadcast", name, arrays, process_set, root_rank=root_rank
    )


def allgather(
    value: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> np.ndarray:
    """Return all ranks' values, concatenated along the first dimension in order of ranks."""
    array = _copied(value)
    return _run(_core.ALLGATHER, "allgather", name, array, process_set, result=_maker(array.dtype))


def reducescatter(
    value: Any,
    name: str | None = None,
    op: int = _core.AVERAGE,
    process_set: ProcessSet = global_process_set,
) -> np.ndarray:
    """Return this rank's part of the rows of the reduction."""
    array = _copied(value)
    return _run(
        _core.REDUCESCATTER,
        "reducescatter",
        name,
        array,
        process_set,
        op,
        result=_maker(array.dtype),
    )


def _maker(dtype: np.dtype) -> Any:
    def make(outputs: list[Any]) -> np.ndarray:
        data = bytearray(outputs[0].tobytes())  # a bytearray makes the array writable
        return np.frombuffer(data, dtype).reshape(outputs[0].shape)

    return make
