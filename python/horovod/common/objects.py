# SPDX-License-Identifier: Apache-2.0
"""Python objects as bytes through the engine, without a framework's tensors.

Loading a pickle runs what is in it, so nothing is loaded before its seal has shown that a rank of
this job has sent it for this very operation (core/net/seal.h). All front ends send their objects
from here.

An object takes two operations. In the first the ranks agree on lengths; the seal belongs to it,
because the number by which it is known is the same on all ranks once it is done, and no other has
it. The second carries the pickle and its seal.
"""

from __future__ import annotations

import struct
from typing import Any

from horovod import _core
from horovod.common import pickling
from horovod.common.process_sets import ProcessSet, global_process_set


def _part(name: str | None, part: str) -> str | None:
    """Without a name they are numbered: not all ranks need to have an object of the same type."""
    return None if name is None else f"{name}.{part}"


def _sealed(operation: Any, pickled: bytes) -> bytearray:
    data = bytearray().join((pickled, bytes(_core.SEAL_BYTES)))
    _core.seal(operation, data)
    return data


def _allgather(data: bytearray, name: str | None, process_set: ProcessSet) -> int:
    view = (_core.address_of(data), None, _core.UINT8, (len(data),))
    result = lambda outputs: outputs[0].tobytes()  # noqa: E731
    return _core.submit(
        _core.ALLGATHER,
        "allgather_object",
        name,
        view,
        process_set=process_set.process_set_id,
        keep=data,
        result=result,
        will_wait=True,
    )


def _sum_of_lengths(length: int, name: str | None, process_set: ProcessSet) -> tuple[int, Any]:
    """The sum of what all ranks give, and the operation.

    The numbers travel as shapes of tensors without bytes. Shapes go with the control messages,
    whose tags nobody on the network can forge: a rank never makes room for a length that no rank
    has sent.
    """
    view = (0, None, _core.UINT8, (length, 0))
    result = lambda outputs: outputs[0].shape[0]  # noqa: E731
    handle = _core.submit(
        _core.ALLGATHER,
        "broadcast_object",
        name,
        view,
        process_set=process_set.process_set_id,
        result=result,
        will_wait=True,
    )
    return _core.wait_and_keep(handle)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The object of the root rank, on every rank; it travels by cloudpickle."""
    is_root = _core.rank() == root_rank
    pickled = pickling.dumps(obj) if is_root else b""
    length, operation = _sum_of_lengths(len(pickled), _part(name, "sz"), process_set)
    data = _sealed(operation, pickled) if is_root else bytearray(length + _core.SEAL_BYTES)
    address = _core.address_of(data)
    view = (address, address, _core.UINT8, (len(data),))
    handle = _core.submit(
        _core.BROADCAST,
        "broadcast_object",
        _part(name, "t"),
        view,
        process_set=process_set.process_set_id,
        keep=data,
        root=root_rank,
        will_wait=True,
    )
    _core.wait(handle)
    if is_root:
        return obj
    _core.check_seal(operation, root_rank, data, 0, length)
    return pickling.loads(memoryview(data)[:length])


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Everybody's objects, by rank."""
    pickled = pickling.dumps(obj)
    own_length = bytearray(struct.pack("<q", len(pickled)))
    lengths, operation = _core.wait_and_keep(_allgather(own_length, _part(name, "sz"), process_set))
    data = _sealed(operation, pickled)
    everything = _core.wait(_allgather(data, _part(name, "t"), process_set))
    ranks = _core.process_set_ranks(process_set.process_set_id)
    pickles, start = [], 0
    for rank, (length,) in zip(ranks, struct.iter_unpack("<q", lengths)):
        # The lengths may have been changed on the way; then the seals do not fit.
        _core.check_seal(operation, rank, everything, start, length)
        pickles.append(memoryview(everything)[start : start + length])
        start += length + _core.SEAL_BYTES
    return [pickling.loads(each) for each in pickles]
