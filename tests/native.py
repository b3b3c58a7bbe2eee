# SPDX-License-Identifier: Apache-2.0
"""Access to libhvd of `make build-dev` through ctypes, and helpers that run ranks as processes."""

import contextlib
import ctypes
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "dev"
LIBRARY = BUILD / "core" / "capi" / "libhvd.so"

SECRET_TEXT = 45


def load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    library.hvd_error.restype = ctypes.c_char_p
    library.hvd_version.restype = ctypes.c_char_p
    return library


@contextlib.contextmanager
def rendezvous():
    """Starts a rendezvous server; yields the variables with which ranks find it."""
    library = load()
    secret = ctypes.create_string_buffer(SECRET_TEXT)
    library.hvd_make_secret(secret)
    server = ctypes.c_void_p()
    code = library.hvd_store_start(secret, b"127.0.0.1", 0, ctypes.byref(server))
    assert code == 0, library.hvd_error().decode()
    try:
        yield {
            "HOROVOD_RENDEZVOUS": f"127.0.0.1:{library.hvd_store_port(server)}",
            "HOROVOD_NETWORK_INTERFACES": "lo",
            "_HOROVOD_SECRET_KEY": secret.value.decode(),
        }
    finally:
        library.hvd_store_stop(server)


def run_ranks(command: list[str], size: int, timeout: float = 60) -> list[str]:
    """Returns the output of each rank; every rank must exit with 0."""
    with rendezvous() as settings:
        processes = []
        for rank in range(size):
            place = {"HOROVOD_RANK": str(rank), "HOROVOD_SIZE": str(size)}
            processes.append(
                subprocess.Popen(
                    command,
                    env=os.environ | settings | place,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        try:
            outputs = [process.communicate(timeout=timeout)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
    for rank, (process, output) in enumerate(zip(processes, outputs)):
        assert process.returncode == 0, f"rank {rank}: {output}"
    return outputs
