# SPDX-License-Identifier: Apache-2.0
"""The exported symbols of libhvd.so, and the classic functions among them."""

import ctypes
import re
import subprocess
import sys

import native

CLASSIC = """
    init init_multi_comm shutdown is_initialized
    rank size local_rank local_size cross_rank cross_size is_homogeneous
    mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built
    ddl_built ccl_built cuda_built rocm_built reduce_op_average reduce_op_sum reduce_op_adasum
    reduce_op_min reduce_op_max reduce_op_product start_timeline stop_timeline add_process_set
    remove_process_set process_set_rank process_set_size process_set_ranks process_set_ids
    process_set_included number_of_process_sets comm_process_set
""".split()  # noqa: SIM905


def exported() -> set[str]:
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", native.LIBRARY],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    return names - {"HVD_1"}  # the version node of all symbols


def declared() -> set[str]:
    header = (native.ROOT / "core" / "capi" / "hvd.h").read_text()
    return set(re.findall(r"^HVD_API [^(;]*?\b(hvd_\w+)\(", header, re.MULTILINE))


def test_the_library_exports_what_its_headers_declare_and_nothing_else():
    assert len(declared()) > 25
    assert exported() == declared() | {f"horovod_{name}" for name in CLASSIC}


def test_the_library_has_a_stable_name():
    dynamic = subprocess.run(
        ["readelf", "--dynamic", native.LIBRARY], check=True, capture_output=True, text=True
    ).stdout
    assert "[libhvd.so.1]" in dynamic


def test_classic_functions_report_that_there_is_no_job():
    library = native.load()
    for name in ["rank", "size", "local_rank", "local_size", "cross_rank", "cross_size"]:
        assert getattr(library, f"horovod_{name}")() == -1
    assert library.horovod_is_initialized() == 0
    assert library.horovod_gloo_enabled() == 0
    assert library.horovod_mpi_threads_supported() == -1
    assert library.horovod_start_timeline(b"trace.json", 0) == -1
    assert library.horovod_stop_timeline() == -1
    assert library.horovod_add_process_set((ctypes.c_int * 1)(0), 1) == -1
    assert library.horovod_process_set_size(0) == -1
    assert library.horovod_number_of_process_sets() == -1


def test_classic_functions_report_what_was_built():
    library = native.load()
    assert library.horovod_gloo_built() == 1
    for name in ["mpi", "nccl", "ddl", "ccl", "cuda", "rocm"]:
        assert getattr(library, f"horovod_{name}_built")() == 0
    ops = ["average", "sum", "adasum", "min", "max", "product"]
    assert [getattr(library, f"horovod_reduce_op_{op}")() for op in ops] == list(range(6))


def classic_rank():
    """Body of one of three ranks, each in its own process."""
    library = native.load()
    ints = ctypes.c_int
    set_ranks = (ints * 3)(0, 1, 2)
    set_sizes = (ints * 2)(2, 1)  # {0, 1} and {2}
    assert library.horovod_init(None, 0, set_ranks, set_sizes, 2) == 1, library.hvd_error()
    assert library.horovod_is_initialized() == 1
    assert library.horovod_gloo_enabled() == 1
    assert library.horovod_mpi_enabled() == 0
    assert library.horovod_mpi_threads_supported() == 0
    assert library.horovod_is_homogeneous() == 1
    rank = library.horovod_rank()
    assert library.horovod_size() == library.horovod_local_size() == 3
    assert library.horovod_local_rank() == rank
    assert (library.horovod_cross_rank(), library.horovod_cross_size()) == (0, 1)

    assert library.horovod_number_of_process_sets() == 3
    ids = (ints * 3)()
    assert library.horovod_process_set_ids(ids) == 0
    assert list(ids) == [0, 1, 2]
    assert library.horovod_process_set_size(1) == 2
    ranks = (ints * 2)()
    assert library.horovod_process_set_ranks(1, ranks) == 0
    assert list(ranks) == [0, 1]
    assert library.horovod_process_set_included(1) == (rank < 2)
    assert library.horovod_process_set_rank(1) == (rank if rank < 2 else -4)
    assert library.horovod_process_set_rank(9) == -3
    assert library.horovod_process_set_included(9) == -3
    assert library.horovod_comm_process_set(None) == -3

    assert library.horovod_add_process_set((ints * 2)(1, 2), 2) == -2  # not dynamic
    assert library.horovod_start_timeline(b"trace.json", 0) == -2
    library.horovod_shutdown()
    assert library.horovod_rank() == -1


def classic_dynamic_rank():
    library = native.load()
    ints = ctypes.c_int
    assert library.horovod_init(None, 0, None, None, 0) == 1
    assert library.horovod_add_process_set((ints * 2)(2, 1), 2) == 1
    assert library.horovod_add_process_set((ints * 2)(1, 2), 2) == -6
    assert library.horovod_remove_process_set(1) == 1
    assert library.horovod_remove_process_set(1) == -3
    library.horovod_shutdown()


def test_classic_process_sets_on_three_ranks():
    native.run_ranks([sys.executable, __file__, "classic_rank"], 3)


def test_classic_dynamic_process_sets_on_three_ranks(monkeypatch):
    monkeypatch.setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
    native.run_ranks([sys.executable, __file__, "classic_dynamic_rank"], 3)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
