# SPDX-License-Identifier: Apache-2.0
"""hvd.h for Python; core/capi/hvd.h documents each function in detail.

Errors: ValueError for a wrong argument, HorovodInternalError for a failure of the job (ranks that
disagree or are lost, a shutdown), and NotInitializedError, which is both, before init. Each has the
attribute `code`, an ErrorCode.

Calls that wait run signal handlers and raise their exceptions. add_process_set, remove_process_set,
shutdown, start_timeline and stop_timeline then continue in the background.
"""

from collections.abc import Iterable, Sequence
from typing import Any

class Output:
    """Memory that the library has allocated for a result; see submit().

    shape: in elements. received_splits: the rows from each rank, after an alltoall.
    """

    shape: tuple[int, ...]
    received_splits: tuple[int, ...]
    def __dlpack__(self, **options: object) -> object:
        """Hand over the memory as a one-dimensional array of bytes, once; then BufferError."""
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def tobytes(self) -> bytes:
        """A copy of the bytes."""

# (address of the input, address of the output, dtype, shape)
_View = tuple[int, int | None, int, tuple[int, ...]]

def submit(
    collective: int,
    label: str,
    name: str | None,
    views: _View | list[_View],
    /,
    *,
    process_set: int | None,
    keep: object = None,
    result: object = None,
    op: int = ...,
    prescale: float = 1.0,
    postscale: float = 1.0,
    root: int = 0,
    splits: Sequence[int] | None = None,
    will_wait: bool = False,
) -> int:
    """Start an operation and return its handle.

    collective: ALLREDUCE and so on.
    label, name: the operation is called `label.name`, or `label.noname.<number>` without a name.
    views: the tensor, or a list of tensors for a group. If the outputs are None, the library
        allocates them.
    process_set: the number of the process set; None, an unregistered set, is a ValueError.
    keep: an object that owns the memory of the views; it lives until the operation is done.
    result: what wait() returns. If the library allocates the outputs: a function that makes the
        return value of wait() from the list of Output.
    op: a reduce operation; SUM by default.
    prescale, postscale: factors of the tensors before and after a reduction.
    root: the rank whose tensor a broadcast sends.
    splits: the rows for each rank in an alltoall; None for equal parts.
    will_wait: True promises that the caller waits for the operation next.
    """

def join() -> int:
    """Start a join and return its handle. The result is the rank that joined last."""

def poll(handle: int, /) -> bool:
    """Whether the operation is done. ValueError for an unknown handle."""

def wait(handle: int, /) -> Any:
    """Wait for an operation and return its result; None if it was waited for already."""

def wait_and_keep(handle: int, /) -> tuple[Any, Any]:
    """As wait(). Returns the result and the operation, for seal() and check_seal()."""

def release(handle: int, /) -> None:
    """Forget an operation, which continues."""

def address_of(data: bytearray, /) -> int:
    """The address of the bytes; valid until `data` changes its size."""

def seal(operation: Any, data: bytearray, /) -> None:
    """Write the seal of the first bytes into the last SEAL_BYTES of `data`.

    operation: from wait_and_keep(). Seal at most one array for each operation: an attacker could
    exchange two.
    """

def check_seal(
    operation: Any, rank: int, data: bytes | bytearray, start: int, length: int, /
) -> None:
    """Raise HorovodInternalError unless `rank` has sealed data[start : start + length].

    The seal follows those bytes. A range that is not inside `data` is refused too.
    """

def version() -> str: ...
def setting(variable: str, text: str | None, /) -> str:
    """A setting as the library reads it, from `text`, or from the environment if that is None.

    A switch is "1" or "0", the items of a list are separated by commas, and a setting that is not
    set has its default. A malformed one is a ValueError. horovod.common.settings converts values.
    """

def init(ranks: Iterable[int], process_sets: Sequence[Iterable[int]], /) -> None: ...
def shutdown() -> None: ...
def is_initialized() -> bool: ...
def rank() -> int: ...
def size() -> int: ...
def local_rank() -> int: ...
def local_size() -> int: ...
def cross_rank() -> int: ...
def cross_size() -> int: ...
def is_homogeneous() -> bool: ...
def mpi_enabled() -> bool: ...
def mpi_built() -> bool: ...
def gloo_enabled() -> bool: ...
def gloo_built() -> bool: ...
def nccl_built() -> int: ...
def ddl_built() -> bool: ...
def ccl_built() -> bool: ...
def cuda_built() -> bool: ...
def rocm_built() -> bool: ...
def add_process_set(ranks: Iterable[int], /) -> int: ...
def remove_process_set(process_set: int, /) -> bool: ...
def process_sets() -> list[int]: ...
def process_set_ranks(process_set: int, /) -> list[int]: ...
def start_timeline(path: str, mark_cycles: bool, /) -> None: ...
def stop_timeline() -> None: ...
def make_secret() -> str: ...

# Rendezvous servers and clients are opaque objects. One thread at a time may use a client.
def rendezvous_start(secret: str, bind: str | None, tls: bool, /) -> Any:
    """Start a server. bind: an address with or without a port; None for every address, any port."""

def rendezvous_port(server: Any, /) -> int: ...
def rendezvous_stop(server: Any, /) -> None: ...
def rendezvous_connect(address: str, secret: str, tls: bool, seconds: float, /) -> Any:
    """Connect a client, with retries until the time is over."""

def rendezvous_set(client: Any, key: str, value: bytes, /) -> None: ...
def rendezvous_get(client: Any, key: str, seconds: float, /) -> bytes | None:
    """Wait for a value; None after `seconds` without one."""

def rendezvous_add(client: Any, key: str, delta: int, /) -> int:
    """Add to the number of this key and return the sum. No two calls return the same sum."""

def rendezvous_delete(client: Any, key: str, /) -> None: ...

ALLREDUCE: int
ALLGATHER: int
BROADCAST: int
ALLTOALL: int
BARRIER: int
REDUCESCATTER: int

AVERAGE: int
SUM: int
ADASUM: int
MIN: int
MAX: int
PRODUCT: int

UINT8: int
INT8: int
UINT16: int
INT16: int
INT32: int
INT64: int
FLOAT16: int
FLOAT32: int
FLOAT64: int
BOOL: int
BFLOAT16: int
UINT32: int
UINT64: int

SEAL_BYTES: int
