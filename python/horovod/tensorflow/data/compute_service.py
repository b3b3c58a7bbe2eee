# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's tf.data service, run by the ranks of a compute job for a training job.

The ranks of the compute job are workers, which prepare elements of datasets. Dispatchers, on ranks
of either job, assign the work to them. Each worker has one dispatcher. The training ranks share the
dispatchers: rank r uses dispatcher r modulo their number.

Both jobs meet at a rendezvous server in rank 0 of the compute job. Dispatchers and workers set
their addresses there as JSON. As for every rendezvous server of Horovod, a client has to prove that
it has the key, and nothing is unpickled.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from horovod import _core
from horovod.common import settings
from horovod.common.exceptions import HorovodInternalError
from horovod.runner.common.util.secret import SECRET_LENGTH, make_secret_key
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.rendezvous import uses_tls

_service = tf.data.experimental.service
# Seconds that one call waits for the end of the training; Python handles Ctrl-C between calls.
_TURN_SECONDS = 1.0


# Configuration and client -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TfDataServiceConfig:
    """How a training job reaches a compute job. Any process that can read it can join the service.

    dispatcher_side: the job whose ranks run the dispatchers: "compute" or "training".
    addresses: addresses of the rendezvous server, each "host:port"; the first that answers is used.
    key: 32 bytes, the secret key of the rendezvous server.
    timeout: seconds to wait for the rendezvous server, for a dispatcher and for its workers.

    Raises ValueError for values out of range.
    """

    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    addresses: list[str]
    key: bytes = dataclasses.field(repr=False)
    timeout: float = 60

    def __post_init__(self) -> None:
        for name in ("dispatchers", "workers_per_dispatcher"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} has to be at least 1, not {getattr(self, name)}")
        if self.dispatcher_side not in ("compute", "training"):
            raise ValueError(
                f'dispatcher_side has to be "compute" or "training", not {self.dispatcher_side!r}'
            )
        if len(self.key) != SECRET_LENGTH:
            raise ValueError(f"key has to have {SECRET_LENGTH} bytes, not {len(self.key)}")

    def to_dict(self) -> dict[str, Any]:
        """The values as JSON can hold them; the key becomes hexadecimal digits."""
        return {**dataclasses.asdict(self), "key": self.key.hex()}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> TfDataServiceConfig:
        return TfDataServiceConfig(**{**values, "key": bytes.fromhex(values["key"])})

    def write(self, filename: str | os.PathLike[str]) -> None:
        """Write a file that only this user can read, and rename it when it is complete."""
        path = pathlib.Path(filename)
        # The file contains the key; mkstemp creates it with mode 0600.
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(handle, "w") as file:
                json.dump(self.to_dict(), file)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise

    @staticmethod
    def read(
        filename: str | os.PathLike[str], wait_for_file_creation: bool = False
    ) -> TfDataServiceConfig:
        """Read a file of write().

        wait_for_file_creation: wait without a time limit until the file exists.
        """
        path = pathlib.Path(filename)
        # Poll: on a network file system there is no notification for files of other hosts.
        while wait_for_file_creation and not path.exists():
            time.sleep(0.2)
        return TfDataServiceConfig.from_dict(json.loads(path.read_text()))

    def compute_client(self, verbose: int = 1) -> ComputeClient:
        """Connect to the rendezvous server; with verbose=2 the client prints what it does."""
        return ComputeClient(self, verbose)


class ComputeClient:
    """A connection to the rendezvous server where a compute job and a training job meet.

    Raises TimeoutException if the server does not answer in time. Methods raise IndexError for a
    dispatcher or worker that the configuration does not have.
    """

    def __init__(self, config: TfDataServiceConfig, verbose: int = 1) -> None:
        self._config = config
        self._verbose = verbose
        try:
            self._client = _core.rendezvous_connect(
                ",".join(config.addresses), _text(config.key), uses_tls(), config.timeout
            )
        except HorovodInternalError as error:
            raise TimeoutException(
                f"The tf.data service at {', '.join(config.addresses)} did not answer within "
                f"{config.timeout} seconds: {error}. Is the compute job running, and is this its "
                "configuration?"
            ) from error

    def register_dispatcher(self, dispatcher_id: int, address: str) -> None:
        """Set the address of a dispatcher. ValueError if it has another address already."""
        self._check_dispatcher(dispatcher_id)
        self._register(_dispatcher_key(dispatcher_id), f"Dispatcher {dispatcher_id}", address)

    def register_worker(self, dispatcher_id: int, worker_id: int, address: str) -> None:
        """Set the address of a worker. `worker_id` counts from 0 for each dispatcher."""
        self._check_dispatcher(dispatcher_id)
        count = self._config.workers_per_dispatcher
        if not 0 <= worker_id < count:
            raise IndexError(f"Worker {worker_id} is not among 0 to {count - 1} of a dispatcher")
        name = f"Worker {worker_id} of dispatcher {dispatcher_id}"
        self._register(_worker_key(dispatcher_id, worker_id), name, address)

    def wait_for_dispatcher(self, dispatcher_id: int, timeout: float | None = None) -> str:
        """Wait for the address of a dispatcher; TimeoutException after `timeout` seconds."""
        self._check_dispatcher(dispatcher_id)
        end = self._end(timeout)
        name, job = f"dispatcher {dispatcher_id}", self._config.dispatcher_side
        return self._wait(_dispatcher_key(dispatcher_id), name, job, end)

    def wait_for_workers(self, dispatcher_id: int, timeout: float | None = None) -> list[str]:
        """Wait for the addresses of all workers of a dispatcher; TimeoutException as above."""
        self._check_dispatcher(dispatcher_id)
        end = self._end(timeout)
        return [
            self._wait(
                _worker_key(dispatcher_id, worker),
                f"worker {worker} of dispatcher {dispatcher_id}",
                "compute",
                end,
            )
            for worker in range(self._config.workers_per_dispatcher)
        ]

    def shutdown(self) -> None:
        """End the compute job."""
        self._say("shutting down the tf.data service")
        _core.rendezvous_set(self._client, _SHUTDOWN, b"{}")

    def wait_for_shutdown(self) -> None:
        """Wait until a client calls shutdown().

        Raises HorovodInternalError if the connection to the rendezvous server is lost.
        """
        while _core.rendezvous_get(self._client, _SHUTDOWN, _TURN_SECONDS) is None:
            pass

    def _check_dispatcher(self, dispatcher_id: int) -> None:
        count = self._config.dispatchers
        if not 0 <= dispatcher_id < count:
            raise IndexError(f"Dispatcher {dispatcher_id} is not among 0 to {count - 1}")

    def _register(self, key: str, name: str, address: str) -> None:
        known = _core.rendezvous_get(self._client, key, 0)
        if known is not None and _address_in(known) != address:
            raise ValueError(
                f"{name} is registered at {_address_in(known)} and cannot be at {address} as well; "
                "every rank needs a number of its own, and every compute job its own configuration"
            )
        _core.rendezvous_set(self._client, key, json.dumps({"address": address}).encode())
        self._say(f"{name} is at {address}")

    def _end(self, timeout: float | None) -> float:
        return time.monotonic() + (self._config.timeout if timeout is None else timeout)

    def _wait(self, key: str, name: str, job: str, end: float) -> str:
        value = _core.rendezvous_get(self._client, key, max(0.0, end - time.monotonic()))
        if value is None:
            raise TimeoutException(
                f"There is no {name} of the tf.data service, which a rank of the {job} job runs; "
                "read the output of that job, or give it more time with --timeout"
            )
        return _address_in(value)

    def _say(self, text: str) -> None:
        if self._verbose > 1:
            print(text, flush=True)


_SHUTDOWN = "tf-data/shutdown"


def _dispatcher_key(dispatcher: int) -> str:
    return f"tf-data/dispatcher/{dispatcher}"


def _worker_key(dispatcher: int, worker: int) -> str:
    return f"tf-data/worker/{dispatcher}/{worker}"


def _address_in(value: bytes) -> str:
    return json.loads(value)["address"]


def _text(key: bytes) -> str:
    """A key in the form that the rendezvous functions take: base64."""
    return base64.b64encode(key).decode()


# The compute job --------------------------------------------------------------------------------


@contextlib.contextmanager
def compute_service(
    dispatchers: int, workers_per_dispatcher: int, dispatcher_side: str, timeout: float = 60
) -> Iterator[TfDataServiceConfig]:
    """Run the rendezvous server of both jobs; yields the configuration to reach it."""
    key = make_secret_key()
    host = _host_address()
    server = _core.rendezvous_start(_text(key), host, uses_tls())
    try:
        yield TfDataServiceConfig(
            dispatchers,
            workers_per_dispatcher,
            dispatcher_side,
            [f"{host}:{_core.rendezvous_port(server)}"],
            key,
            timeout,
        )
    finally:
        _core.rendezvous_stop(server)


def compute_worker_fn(compute_config: TfDataServiceConfig) -> None:
    """Run a worker, and on some ranks also a dispatcher, until a client shuts the service down.

    All ranks of a compute job have to call it. Consecutive ranks share a dispatcher.
    Raises ValueError if the number of ranks is not that of the workers.
    """
    import horovod.tensorflow as hvd

    hvd.init()
    workers = compute_config.workers_per_dispatcher
    if hvd.size() != compute_config.dispatchers * workers:
        raise ValueError(
            f"{compute_config.dispatchers} dispatchers with {workers} workers each need as many "
            f"ranks as there are workers, not {hvd.size()}"
        )
    dispatcher_id, worker_id = divmod(hvd.rank(), workers)
    client = compute_config.compute_client()
    with contextlib.ExitStack() as servers:
        if compute_config.dispatcher_side == "compute" and worker_id == 0:
            address = servers.enter_context(_dispatcher())
            client.register_dispatcher(dispatcher_id, address)
        dispatcher = client.wait_for_dispatcher(dispatcher_id)
        address = servers.enter_context(_worker(dispatcher))
        client.register_worker(dispatcher_id, worker_id, address)
        client.wait_for_shutdown()
        # A barrier: the other ranks may still need the dispatcher or the rendezvous server of this
        # rank to learn of the shutdown.
        hvd.allgather_object(None, name="tf-data.shutdown")


@contextlib.contextmanager
def _dispatcher() -> Iterator[str]:
    """Run a dispatcher in this process; yields its address."""
    server = _service.DispatchServer(_service.DispatcherConfig(port=0))
    try:
        yield f"{_host_address()}:{server.target.rpartition(':')[2]}"
    finally:
        server._stop()


@contextlib.contextmanager
def _worker(dispatcher: str) -> Iterator[str]:
    """Run a worker in this process; yields its address."""
    host = _host_address()
    # The worker chooses a free port and replaces %port% by it.
    config = _service.WorkerConfig(dispatcher_address=dispatcher, worker_address=f"{host}:%port%")
    server = _service.WorkerServer(config)
    try:
        yield f"{host}:{server._address.rpartition(':')[2]}"
    finally:
        server._stop()


def _host_address() -> str:
    """The IPv4 address by which other hosts reach this one."""
    names = settings.items("HOROVOD_NETWORK_INTERFACES")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if names:
            return _interface_address(probe, names[0])
        try:
            # Connecting a UDP socket sends nothing, but the kernel chooses the source address. The
            # address is reserved for documentation, so the kernel uses the default route.
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return "127.0.0.1"  # no route to other hosts, so all ranks are on this one
        return probe.getsockname()[0]


def _interface_address(probe: socket.socket, name: str) -> str:
    get_address = 0x8915  # SIOCGIFADDR
    try:
        answer = fcntl.ioctl(probe, get_address, struct.pack("256s", name.encode()[:15]))
    except OSError as error:
        raise ValueError(
            f"the network interface {name} of HOROVOD_NETWORK_INTERFACES has no IPv4 address: "
            f"{error}"
        ) from error
    return socket.inet_ntoa(answer[20:24])


# The training job -------------------------------------------------------------------------------


@contextlib.contextmanager
def tf_data_service(compute_config: TfDataServiceConfig, rank: int) -> Iterator[str]:
    """Yields the address of the dispatcher of a training rank, after all its workers are ready.

    With dispatchers on the training side, the first ranks run them until the end of the block:
    leave the block after all ranks have read all their data.
    Raises TimeoutException if the dispatcher or a worker is not ready in time.
    """
    client = compute_config.compute_client()
    dispatcher_id = rank % compute_config.dispatchers
    with contextlib.ExitStack() as servers:
        if compute_config.dispatcher_side == "training" and rank < compute_config.dispatchers:
            client.register_dispatcher(rank, servers.enter_context(_dispatcher()))
        address = client.wait_for_dispatcher(dispatcher_id)
        client.wait_for_workers(dispatcher_id)
        yield f"grpc://{address}"


# Key of a service -> number of datasets sent to it; all ranks send theirs in the same order.
_sent: collections.Counter[bytes] = collections.Counter()


def send_to_data_service(
    dataset: tf.data.Dataset,
    compute_config: TfDataServiceConfig,
    rank: int,
    size: int | None = None,
    processing_mode: str = "distributed_epoch",
    reuse_dataset: bool = False,
    round_robin: bool = False,
) -> tf.data.Dataset:
    """Return a dataset that the workers of a compute job prepare. Also a method of tf.data.Dataset.

    rank: the rank in the training job.
    size: the number of training ranks; round_robin needs it.
    processing_mode: "distributed_epoch" for each element once, "parallel_epochs" for all elements
        from each worker, or a tf.data.experimental.service.ShardingPolicy.
    reuse_dataset: the ranks of a dispatcher share the elements; otherwise each rank gets all.
    round_robin: these ranks take turns, so that they get batches of similar size at the same time.
        For reused datasets without an end.

    Raises RuntimeError if the dispatchers are on the training side, and ValueError for round_robin
    without size and reuse_dataset.
    """
    if compute_config.dispatcher_side == "training":
        raise RuntimeError(
            "send_to_data_service needs dispatchers on the compute side; with dispatchers on the "
            "training side, use `with tf_data_service(config, rank) as address:` and "
            "tf.data.experimental.service.distribute there"
        )
    if round_robin and (size is None or not reuse_dataset):
        raise ValueError("round_robin=True needs size= and reuse_dataset=True")
    job_name = None
    if reuse_dataset:
        job_name = f"horovod-{_sent[compute_config.key]}"
        _sent[compute_config.key] += 1
    turn = turns = None
    if round_robin:
        peers = range(rank % compute_config.dispatchers, size, compute_config.dispatchers)
        turn, turns = peers.index(rank), len(peers)
    with tf_data_service(compute_config, rank) as address:
        return dataset.apply(
            _service.distribute(
                processing_mode=processing_mode,
                service=address,
                job_name=job_name,
                consumer_index=turn,
                num_consumers=turns,
            )
        )


tf.data.Dataset.send_to_data_service = send_to_data_service
