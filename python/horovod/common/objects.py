"""Python objects as bytes through the engine, without a framework's tensors."""

from __future__ import annotations

import struct
from typing import Any

from horovod import _core
from horovod.common.process_sets import ProcessSet, global_process_set


def _dumps(obj: Any) -> bytearray:
    import cloudpickle  # it takes 30 ms, which a script that needs no objects does not pay

    return bytearray(cloudpickle.dumps(obj))


def _loads(data: Any) -> Any:
    import cloudpickle

    return cloudpickle.loads(data)


def _part(name: str | None, part: str) -> str | None:
    """Without a name they are numbered: not all ranks need to have an object of the same type."""
    return None if name is None else f"{name}.{part}"


def _broadcast_bytes(
    data: bytearray, root_rank: int, name: str | None, process_set: ProcessSet
) -> bytearray:
    address = _core.address_of(data)
    handle = _core.submit(
        _core.BROADCAST,
        "broadcast_object",
        name,
        (address, address, _core.UINT8, (len(data),)),
        _core.SUM,
        1.0,
        1.0,
        root_rank,
        process_set.process_set_id,
        None,
        True,
        data,
        data,
    )
    return _core.wait(handle)


def _allgather_bytes(data: bytearray, name: str | None, process_set: ProcessSet) -> bytes:
    handle = _core.submit(
        _core.ALLGATHER,
        "allgather_object",
        name,
        (_core.address_of(data), None, _core.UINT8, (len(data),)),
        _core.SUM,
        1.0,
        1.0,
        0,
        process_set.process_set_id,
        None,
        True,
        data,
        lambda outputs: outputs[0].tobytes(),
    )
    return _core.wait(handle)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The object of the root rank, on every rank; it travels by cloudpickle."""
    is_root = _core.rank() == root_rank
    data = _dumps(obj) if is_root else bytearray()
    size = _broadcast_bytes(
        bytearray(struct.pack("<q", len(data))), root_rank, _part(name, "sz"), process_set
    )
    if not is_root:
        data = bytearray(struct.unpack("<q", size)[0])
    _broadcast_bytes(data, root_rank, _part(name, "t"), process_set)
    return obj if is_root else _loads(data)


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Everybody's objects, by rank."""
    data = _dumps(obj)
    sizes = _allgather_bytes(
        bytearray(struct.pack("<q", len(data))), _part(name, "sz"), process_set
    )
    everything = memoryview(_allgather_bytes(data, _part(name, "t"), process_set))
    objects, start = [], 0
    for (length,) in struct.iter_unpack("<q", sizes):
        objects.append(_loads(everything[start : start + length]))
        start += length
    return objects
