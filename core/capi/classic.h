// SPDX-License-Identifier: Apache-2.0
/* The symbols of Horovod's native library, which programs in other languages look up by name, for
 * example through ctypes. They exist for compatibility; new programs should use hvd.h, which offers
 * more and reports errors in more detail.
 *
 * Functions that return a number return -1 without a job. Truth values are 1 and 0. Functions on
 * process sets return the codes below when they fail. hvd_error() returns the text. */
#ifndef HVD_CLASSIC_H_
#define HVD_CLASSIC_H_

#include "capi/hvd.h"

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): this is C */

#ifdef __cplusplus
extern "C" {
#endif

#define HOROVOD_ERROR_INIT (-1)     /* there is no job */
#define HOROVOD_ERROR_DYNAMIC (-2)  /* HOROVOD_DYNAMIC_PROCESS_SETS is not set */
#define HOROVOD_ERROR_UNKNOWN (-3)  /* there is no such process set */
#define HOROVOD_ERROR_FOREIGN (-4)  /* this rank is not in the set */
#define HOROVOD_ERROR_SHUTDOWN (-5) /* the job has ended */
#define HOROVOD_ERROR_EXISTING (-6) /* there is a set of these ranks */

/* `ranks`: the ranks that take part; count 0: all. `set_ranks` holds the ranks of all process sets,
 * one set after the other; `set_sizes` holds their sizes. Returns 1 on success, otherwise 0. */
HVD_API int horovod_init(const int* ranks, int count, const int* set_ranks, const int* set_sizes,
                         int set_count);
/* Always fails: it needs MPI communicators, and the library does not use MPI. */
HVD_API int horovod_init_multi_comm(void* comms, int count, const int* set_ranks,
                                    const int* set_sizes, int set_count);
HVD_API void horovod_shutdown(void);
HVD_API int horovod_is_initialized(void);

HVD_API int horovod_rank(void);
HVD_API int horovod_size(void);
HVD_API int horovod_local_rank(void);
HVD_API int horovod_local_size(void);
HVD_API int horovod_cross_rank(void);
HVD_API int horovod_cross_size(void);
HVD_API int horovod_is_homogeneous(void);

/* "gloo" is Horovod's name for collectives on host memory without MPI, which this library has. MPI
 * is "enabled" in a job that an MPI launcher has started: the program may use MPI in addition. The
 * library itself makes no calls of MPI, so it permits any use of threads. */
HVD_API int horovod_mpi_threads_supported(void);
HVD_API int horovod_mpi_enabled(void);
HVD_API int horovod_mpi_built(void);
HVD_API int horovod_gloo_enabled(void);
HVD_API int horovod_gloo_built(void);
HVD_API int horovod_nccl_built(void);
HVD_API int horovod_ddl_built(void);
HVD_API int horovod_ccl_built(void);
HVD_API int horovod_cuda_built(void);
HVD_API int horovod_rocm_built(void);

HVD_API int horovod_reduce_op_average(void);
HVD_API int horovod_reduce_op_sum(void);
HVD_API int horovod_reduce_op_adasum(void);
HVD_API int horovod_reduce_op_min(void);
HVD_API int horovod_reduce_op_max(void);
HVD_API int horovod_reduce_op_product(void);

/* 1, or -1 without a job, or -2 if HOROVOD_TIMELINE was not set at the start. */
HVD_API int horovod_start_timeline(const char* path, int mark_cycles);
HVD_API int horovod_stop_timeline(void);

/* The id of the new set, or a code. */
HVD_API int horovod_add_process_set(const int* ranks, int count);
/* The id of the set that was removed, or a code. */
HVD_API int horovod_remove_process_set(int id);
/* Index of this rank in the set, or a code. */
HVD_API int horovod_process_set_rank(int id);
HVD_API int horovod_process_set_size(int id);
/* Fills an array that has room for horovod_process_set_size() ranks. Returns 0 or a code. */
HVD_API int horovod_process_set_ranks(int id, int* ranks);
/* Whether this rank is in the set, or a code. */
HVD_API int horovod_process_set_included(int id);
HVD_API int horovod_number_of_process_sets(void);
/* Fills an array that has room for horovod_number_of_process_sets() ids. Returns 0 or a code. */
HVD_API int horovod_process_set_ids(int* ids);
/* Always fails: no process set is made from an MPI communicator. */
HVD_API int horovod_comm_process_set(void* comm);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#endif /* HVD_CLASSIC_H_ */
