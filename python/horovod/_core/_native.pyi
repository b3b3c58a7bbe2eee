# SPDX-License-Identifier: Apache-2.0
"""hvd.h for Python; core/capi/hvd.h says more about each function.

Failures: ValueError for what is wrong by itself, HorovodInternalError for what the job has to do
with (ranks that disagree or are lost, a shutdown), NotInitializedError, which is both, before init.
Each has the attribute `code`, an ErrorCode.

Calls that wait run handlers of signals, and raise what these raise. add_process_set,
remove_process_set, shutdown, start_timeline and stop_timeline then go on in the background.
"""

from collections.abc import Iterable, Sequence
from typing import Any

class Output:
    """Memory that the library has allocated for a result; see submit()."""

    shape: tuple[int, ...]
    received_splits: tuple[int, ...]
    def __dlpack__(self, **options: object) -> object:
        """Hands over the memory as a one-dimensional array of bytes; once."""
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def tobytes(self) -> bytes: ...

# (address of the input, of the output, dtype, shape)
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

    Its name is `label.name`, or `label.noname.<number>`; a list of views is a group. `keep` is
    kept alive until the operation is done, and has to keep the memory of the views. `result` is
    what wait() returns; or where the views' outputs are None, which lets the library allocate
    them, a function that makes that from a list of Output.
    `op` is SUM by default. A `process_set` of None, one that is not registered, is a ValueError.
    `will_wait` promises that the caller waits at once.
    """

def join() -> int:
    """Start a join and return its handle; its result is the rank that joined last."""

def poll(handle: int, /) -> bool: ...
def wait(handle: int, /) -> Any:
    """The result of an operation; None if somebody has waited for it already."""

def wait_and_keep(handle: int, /) -> tuple[Any, Any]:
    """As wait(), and the operation itself, for seals."""

def release(handle: int, /) -> None:
    """Forget an operation, which goes on."""

def address_of(data: bytearray, /) -> int: ...
def seal(operation: Any, data: bytearray, /) -> None:
    """Make the last SEAL_BYTES of `data` the seal of those before, for an operation that was kept.

    Seal no more than one array for an operation: two could be exchanged for each other.
    """

def check_seal(
    operation: Any, rank: int, data: bytes | bytearray, start: int, length: int, /
) -> None:
    """Raise HorovodInternalError unless `rank` has sealed data[start : start + length].

    The seal follows those bytes. Any `start` and `length` may be given; bytes that are not there
    are refused.
    """

def version() -> str: ...
def setting(variable: str, text: str | None, /) -> str:
    """A setting as the library reads it, from the text or else from the environment.

    A switch is "1" or "0", a list has commas, what is not set has its default. horovod.common has
    `settings` on top.
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

# Servers and clients of a store are opaque.
def rendezvous_start(secret: str, bind: str | None, tls: bool, /) -> Any: ...
def rendezvous_port(server: Any, /) -> int: ...
def rendezvous_stop(server: Any, /) -> None: ...
def rendezvous_connect(address: str, secret: str, tls: bool, seconds: float, /) -> Any: ...
def rendezvous_set(client: Any, key: str, value: bytes, /) -> None: ...
def rendezvous_get(client: Any, key: str, seconds: float, /) -> bytes | None:
    """Wait for a value; None once the time is over."""

def rendezvous_add(client: Any, key: str, delta: int, /) -> int:
    """The sum of all that was added under this key."""

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
