# SPDX-License-Identifier: Apache-2.0
"""One of two ranks between which an attacker changes the bytes of objects.

    objects_rank.py FOLDER

The attacker is a wrapper around the binding's submit(), which changes bytes after they were sealed
or before they are checked, like an attacker on the network. A pickle of the attacker that is loaded
leaves a file in FOLDER.
"""

import os
import pathlib
import pickle
import struct
import sys

from horovod import _core
from horovod.common import basics, objects, pickling
from horovod.common.exceptions import HorovodInternalError

RAN = pathlib.Path(sys.argv[1]) / "ran"


class Attack:
    """Makes the folder RAN when it is loaded."""

    def __reduce__(self):
        return os.mkdir, (str(RAN),)


def evil(length):
    """A pickle of exactly that length: bytes after its end are ignored."""
    data = pickle.dumps(Attack())
    assert len(data) <= length
    return data.ljust(length, b"\0")


class Wire:
    """Between this rank and the other one: functions may change the bytes."""

    def __init__(self):
        self._submit = _core.submit
        _core.submit = self.submit
        self.outgoing = self.incoming = None

    def submit(self, *args, **options):
        data, result = options.get("keep"), options.get("result")
        if self.outgoing and isinstance(data, bytearray):
            size = len(data)
            self.outgoing(data)
            assert len(data) == size
        if self.incoming and callable(result):
            incoming = self.incoming
            options["result"] = lambda outputs: incoming(result(outputs))
        return self._submit(*args, **options)


wire = Wire()


def expect_refusal(call, operation):
    """Rank 1 refuses the object, names rank 0 and the operation, and the job continues."""
    if basics.rank() == 0:
        call()
    else:
        try:
            print("accepted", call())
            raise SystemExit(1)
        except HorovodInternalError as error:
            assert "rank 0" in str(error) and operation in str(error), error
            assert "seal" in str(error), error
    wire.outgoing = wire.incoming = None
    assert not RAN.exists()
    assert objects.broadcast_object(basics.rank(), 0) == 0
    assert objects.allgather_object(basics.rank(), "again") == [0, 1]


# Broadcast --------------------------------------------------------------------------------------

LOAD = {"k": "H" * 200}


def change_outgoing(change):
    if basics.rank() == 0:
        wire.outgoing = lambda data: change(data) if len(data) > 100 else None


def check_an_exchanged_pickle_is_not_run():
    def exchange(data):
        # Keep the last 32 bytes of the pickle and the seal, which has 32 bytes too.
        length = len(data) - 64
        data[:length] = evil(length)

    change_outgoing(exchange)
    expect_refusal(lambda: objects.broadcast_object(LOAD, 0, "model"), "broadcast_object.model")


def check_an_exchanged_pickle_is_not_run_without_a_name():
    change_outgoing(lambda data: data.__setitem__(slice(0, 150), evil(150)))
    expect_refusal(lambda: objects.broadcast_object(LOAD, 0), "broadcast_object.noname")


def check_a_replayed_pickle_is_refused():
    seen = []
    change_outgoing(lambda data: seen.append(bytes(data)))
    assert objects.broadcast_object(["a" * 200], 0, "model") == ["a" * 200]
    wire.outgoing = None
    change_outgoing(lambda data: data.__setitem__(slice(None), seen[0]))
    expect_refusal(
        lambda: objects.broadcast_object(["b" * 200], 0, "model"), "broadcast_object.model"
    )


def check_a_cut_pickle_is_refused():
    change_outgoing(lambda data: data.__setitem__(slice(-40, None), bytes(40)))
    expect_refusal(lambda: objects.broadcast_object(LOAD, 0, "model"), "broadcast_object.model")


def check_another_name_is_refused():
    seen = []
    change_outgoing(lambda data: seen.append(bytes(data)))
    objects.broadcast_object(["a" * 200], 0, "one")
    wire.outgoing = None
    change_outgoing(lambda data: data.__setitem__(slice(None), seen[0]))
    expect_refusal(lambda: objects.broadcast_object(["b" * 200], 0, "two"), "broadcast_object.two")


def check_no_length_goes_with_the_data():
    """The data messages contain no lengths that an attacker could change."""
    sizes = []
    wire.outgoing = lambda data: sizes.append(len(data))
    objects.broadcast_object("x" if basics.rank() == 0 else None, 0, "model")
    wire.outgoing = None
    assert len(sizes) == 1 and sizes[0] > _core.SEAL_BYTES, sizes


# Allgather --------------------------------------------------------------------------------------


def change_incoming(is_lengths, change):
    if basics.rank() == 1:
        wire.incoming = lambda data: change(data) if (len(data) == 16) == is_lengths else data


def check_exchanged_pickles_of_two_ranks_are_refused():
    change_incoming(False, lambda data: data[len(data) // 2 :] + data[: len(data) // 2])
    expect_refusal(lambda: objects.allgather_object(basics.rank(), "all"), "allgather_object.all")


def check_a_changed_pickle_of_another_rank_is_not_run():
    change_incoming(False, lambda data: evil(150) + data[150:])
    expect_refusal(lambda: objects.allgather_object(LOAD, "all"), "allgather_object.all")


def check_changed_lengths_are_refused():
    own = len(pickling.dumps(LOAD))
    for first, second in [
        (own + 1, own - 1),
        (own - 1, own + 1),
        (0, 2 * own),
        (-1, own),
        (-(2**63), 2**63 - 1),
        (2**63 - 1, own),
        (2**62, 2**62),
    ]:
        lengths = struct.pack("<qq", first, second)
        change_incoming(True, lambda data, lengths=lengths: lengths)
        expect_refusal(lambda: objects.allgather_object(LOAD, "all"), "allgather_object.all")


def main():
    basics.init()
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            check()
            print("passed", name[len("check_") :], flush=True)
    basics.shutdown()


if __name__ == "__main__":
    main()
