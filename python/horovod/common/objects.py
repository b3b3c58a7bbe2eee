# SPDX-License-Identifier: Apache-2.0
"""Broadcast and allgather of Python objects, as bytes without a framework's tensors.

All front ends send objects through this module. Loading a pickle runs the code in it, so it is
loaded only after its seal has proved that a rank of this job sent it for this operation
(core/net/seal.h).

An object takes two operations. In the first one the ranks agree on lengths. The seal is bound to
that operation, because its number is unique, and the same on all ranks once it is done. The second
operation carries the pickle and its seal.
"""

from __future__ import annotations

import struct
from typing import Any

from horovod import _core
from horovod.common import pickling
from horovod.common.process_sets import ProcessSet, global_process_set


def _part(name: str | None, part: str) -> str | None:
    """The name of one of the two operations; None, a number, for an object without a name.

    A name from the object's type would not do: ranks may have objects of different types.
    """
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
    """Return the sum of the lengths of all ranks, and the operation.

    The lengths are the shapes of tensors without bytes. Shapes are part of the control messages,
    whose tags an attacker on the network cannot forge. So a rank never allocates memory for a
    length that no rank sent.
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
    """Return the object of the rank `root_rank` on every rank. cloudpickle serializes it.

    name: of the operation, the same on all ranks; by default operations are numbered.
    Raises HorovodInternalError if the object was changed on its way, or if the job fails.
    """
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
    """Return the objects of all ranks as a list, in order of ranks.

    name: of the operation, the same on all ranks; by default operations are numbered.
    Raises HorovodInternalError if an object was changed on its way, or if the job fails.
    """
    pickled = pickling.dumps(obj)
    own_length = bytearray(struct.pack("<q", len(pickled)))
    lengths, operation = _core.wait_and_keep(_allgather(own_length, _part(name, "sz"), process_set))
    data = _sealed(operation, pickled)
    everything = _core.wait(_allgather(data, _part(name, "t"), process_set))
    ranks = _core.process_set_ranks(process_set.process_set_id)
    pickles, start = [], 0
    for rank, (length,) in zip(ranks, struct.iter_unpack("<q", lengths)):
        # An attacker may have changed the lengths; then the seals do not match.
        _core.check_seal(operation, rank, everything, start, length)
        pickles.append(memoryview(everything)[start : start + length])
        start += length + _core.SEAL_BYTES
    return [pickling.loads(each) for each in pickles]
