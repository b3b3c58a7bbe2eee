# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's tf.data service, run by the ranks of one job for the ranks of another.

The ranks of a compute job are workers, which prepare elements of datasets; dispatchers, on ranks of
either job, hand the work out to them. Each worker has one dispatcher, and the training ranks share
the dispatchers: rank r goes to number r modulo their count.

Both jobs meet in a store, served by rank 0 of the compute job: dispatchers and workers leave their
addresses there as JSON. As in every store of Horovod, who connects has to prove that it knows the
key, and nothing is unpickled.
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
# How long one call waits for the end of the training: Python hears Ctrl-C between two.
_TURN_SECONDS = 1.0


# Where and how the jobs meet --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TfDataServiceConfig:
    """What a training job has to know of a compute job. Who can read it can join the service.

    dispatcher_side: the job whose ranks run the dispatchers: "compute" or "training".
    addresses: of the store where both meet, each "host:port"; the first that answers is used.
    key: 32 bytes that everybody who connects to the store has to know.
    timeout: seconds to wait for the store, for a dispatcher and for its workers.
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
        """For JSON; the key becomes hexadecimal digits."""
        return {**dataclasses.asdict(self), "key": self.key.hex()}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> TfDataServiceConfig:
        return TfDataServiceConfig(**{**values, "key": bytes.fromhex(values["key"])})

    def write(self, filename: str | os.PathLike[str]) -> None:
        """Write it for this user alone; whoever sees the file sees all of it."""
        path = pathlib.Path(filename)
        # mkstemp lets nobody else read it, and the key is in it.
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
        """Read what write() has written, or will write: then it waits, however long."""
        path = pathlib.Path(filename)
        # Files of other hosts announce themselves to nobody.
        while wait_for_file_creation and not path.exists():
            time.sleep(0.2)
        return TfDataServiceConfig.from_dict(json.loads(path.read_text()))

    def compute_client(self, verbose: int = 1) -> ComputeClient:
        """A connection to the store; with verbose=2 it prints what it does."""
        return ComputeClient(self, verbose)


class ComputeClient:
    """A connection to the store where a compute job and a training job meet."""

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
        """Say where a dispatcher is. ValueError if it is known to be elsewhere."""
        self._check_dispatcher(dispatcher_id)
        self._register(_dispatcher_key(dispatcher_id), f"Dispatcher {dispatcher_id}", address)

    def register_worker(self, dispatcher_id: int, worker_id: int, address: str) -> None:
        """Say that a worker is at the service of a dispatcher; `worker_id` counts from 0 there."""
        self._check_dispatcher(dispatcher_id)
        count = self._config.workers_per_dispatcher
        if not 0 <= worker_id < count:
            raise IndexError(f"Worker {worker_id} is not among 0 to {count - 1} of a dispatcher")
        name = f"Worker {worker_id} of dispatcher {dispatcher_id}"
        self._register(_worker_key(dispatcher_id, worker_id), name, address)

    def wait_for_dispatcher(self, dispatcher_id: int, timeout: float | None = None) -> str:
        """The address of a dispatcher, once it is registered."""
        self._check_dispatcher(dispatcher_id)
        end = self._end(timeout)
        name, job = f"dispatcher {dispatcher_id}", self._config.dispatcher_side
        return self._wait(_dispatcher_key(dispatcher_id), name, job, end)

    def wait_for_workers(self, dispatcher_id: int, timeout: float | None = None) -> list[str]:
        """The addresses of a dispatcher's workers, once all are registered."""
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
        """Wait until somebody calls shutdown(); HorovodInternalError if the store is lost."""
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
                "see what that job says, or give it more time with --timeout"
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
    """A key as stores take it."""
    return base64.b64encode(key).decode()


# The compute job --------------------------------------------------------------------------------


@contextlib.contextmanager
def compute_service(
    dispatchers: int, workers_per_dispatcher: int, dispatcher_side: str, timeout: float = 60
) -> Iterator[TfDataServiceConfig]:
    """Serve the store where the jobs meet, and tell how to get there."""
    key = make_secret_key()
    host = _host_address()
    store = _core.rendezvous_start(_text(key), host, uses_tls())
    try:
        yield TfDataServiceConfig(
            dispatchers,
            workers_per_dispatcher,
            dispatcher_side,
            [f"{host}:{_core.rendezvous_port(store)}"],
            key,
            timeout,
        )
    finally:
        _core.rendezvous_stop(store)


def compute_worker_fn(compute_config: TfDataServiceConfig) -> None:
    """Be a worker, or also a dispatcher, until somebody shuts the service down.

    To be called on all ranks of a compute job; each has the dispatcher that its number falls to.
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
        # Nobody takes away the dispatcher, or the store, that others have yet to hear from.
        hvd.allgather_object(None, name="tf-data.shutdown")


@contextlib.contextmanager
def _dispatcher() -> Iterator[str]:
    """A dispatcher in this process, and its address."""
    server = _service.DispatchServer(_service.DispatcherConfig(port=0))
    try:
        yield f"{_host_address()}:{server.target.rpartition(':')[2]}"
    finally:
        server._stop()


@contextlib.contextmanager
def _worker(dispatcher: str) -> Iterator[str]:
    """A worker in this process, and its address."""
    host = _host_address()
    # It takes a port that is free, and puts it into its address by itself.
    config = _service.WorkerConfig(dispatcher_address=dispatcher, worker_address=f"{host}:%port%")
    server = _service.WorkerServer(config)
    try:
        yield f"{host}:{server._address.rpartition(':')[2]}"
    finally:
        server._stop()


def _host_address() -> str:
    """The address by which other hosts reach this one."""
    names = settings.items("HOROVOD_NETWORK_INTERFACES")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if names:
            return _interface_address(probe, names[0])
        try:
            # Sends nothing: the kernel says from where it would. The host is one of those that are
            # reserved for documentation, so this is the way to everywhere.
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return "127.0.0.1"  # no way out, so everybody is here
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
    """The address of the dispatcher of a training rank, once all of its workers are there.

    With dispatchers on the training side, the first ranks run them, until the end of the block:
    leave it when all ranks have read all of their data.
    """
    client = compute_config.compute_client()
    dispatcher_id = rank % compute_config.dispatchers
    with contextlib.ExitStack() as servers:
        if compute_config.dispatcher_side == "training" and rank < compute_config.dispatchers:
            client.register_dispatcher(rank, servers.enter_context(_dispatcher()))
        address = client.wait_for_dispatcher(dispatcher_id)
        client.wait_for_workers(dispatcher_id)
        yield f"grpc://{address}"


# How many datasets went to each service: all ranks send theirs in the same order.
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
    """The dataset, prepared by the workers of a compute job. It is a method of datasets, too.

    size: the number of training ranks; needed for round_robin.
    processing_mode: "distributed_epoch" for each element once, "parallel_epochs" for all elements
        from each worker, or a tf.data.experimental.service.ShardingPolicy.
    reuse_dataset: the ranks of a dispatcher share the elements; else each of them gets all.
    round_robin: those ranks take turns, and so get batches of like size at the same time; for
        datasets without an end that are reused.
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
