/* SPDX-License-Identifier: Apache-2.0 */
/* hvd.h: the C interface of the library. The front ends for all languages and frameworks use it.
 * C++ programs can use hvd.hpp, which is built on it.
 *
 * Conventions
 * - A function that can fail returns an hvd_code: HVD_OK, or the kind of the failure. hvd_error()
 *   then returns a text that describes the failure and, where possible, the remedy.
 * - Every function may be called from any thread, unless its comment states otherwise.
 * - The library uses arguments only during the call. The exception is the memory of tensors, which
 *   the library uses until the operation is done: the caller must not free or change it until
 *   then. Memory that a function returns belongs to the library, unless a function exists to free
 *   it.
 * - Each structure begins with its size, so that later versions can add fields. Initialize it with
 *   HVD_REQUEST_INIT, or with {sizeof(hvd_tensor)} and so on. A field that is zero has its default.
 * - A program runs with every later library of the same major version: fields that its header did
 *   not have keep their defaults. It also runs with an earlier library if it leaves all fields zero
 *   that the earlier library does not have. If such a field is set, the call fails with
 *   HVD_INVALID_ARGUMENT; in an hvd_output such a field is returned as zero.
 *   (For maintainers: append new fields to a structure, each at or after the previous sizeof of the
 *   structure, and without padding after the last field.)
 * - No call blocks without end: every wait ends with the loss of a rank, with a shutdown, or at a
 *   time limit of the settings. Four functions wait for the programs of the other ranks: hvd_init,
 *   hvd_wait, hvd_add_process_set and hvd_remove_process_set.
 * - A child process that was forked without exec has no job. It may call hvd_init, and is then a
 *   rank itself. It may release the operations of its parent, but must not use them otherwise.
 *
 * One operation from start to end:
 *
 *   hvd_request request = HVD_REQUEST_INIT;
 *   hvd_tensor tensor = {sizeof tensor, "weights", gradients, gradients, shape, 1, HVD_FLOAT32};
 *   hvd_operation* operation;
 *   if (hvd_submit(&request, &tensor, 1, &operation) != HVD_OK) fail(hvd_error());
 *   if (hvd_wait(operation, -1) != HVD_OK) fail(hvd_error());
 *   hvd_release(operation);
 */
#ifndef HVD_H_
#define HVD_H_

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): this is C */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HVD_API __attribute__((visibility("default")))

typedef enum hvd_code {
  HVD_OK = 0,
  HVD_INVALID_ARGUMENT = 1, /* the call can never work: bad splits, unknown set, name in flight */
  HVD_PRECONDITION = 2,     /* the ranks disagree, or the call came at the wrong time */
  HVD_PEER_LOST = 3,        /* a rank died; hvd_shutdown, then hvd_init start a new job */
  HVD_TIMEOUT = 4,          /* a time limit passed */
  HVD_ABORTED = 5,          /* the job was shut down, on this rank or on another */
  HVD_UNAUTHENTICATED = 6,  /* another job secret, or bytes that were changed on the network */
  HVD_NOT_FOUND = 7,        /* no such key, setting, host or network interface */
  HVD_UNAVAILABLE = 8,      /* this machine lacks memory, threads, space or a permission */
  HVD_IO = 9,               /* a system call failed */
  HVD_INTERNAL = 10,        /* a bug of the library */
  HVD_ALREADY_EXISTS = 11,  /* there is a process set of these ranks */
  HVD_NOT_INITIALIZED = 12, /* there is no job; call hvd_init first */
  HVD_INTERRUPTED = 13      /* the function given to hvd_set_interrupt returned non-zero */
} hvd_code;

/* The text of the last failure of a call by this thread; never NULL. It stays valid until the next
 * call of this thread that fails. */
HVD_API const char* hvd_error(void);
/* The version of the library, for example "1.0.0". */
HVD_API const char* hvd_version(void);

/* Returns non-zero if the caller wants to stop waiting. It must not call the library. */
typedef int (*hvd_interrupted)(void* context);
/* Lets this thread interrupt its own waits, for example after Ctrl-C. From now on hvd_init and the
 * calls with an hvd_store_client, made by this thread, call `interrupted` about every 50 ms while
 * they wait. They fail with HVD_INTERRUPTED within about 100 ms after it has returned non-zero.
 * After an interrupted hvd_init there is no job, and ranks that wait for this one fail. An
 * hvd_store_client stays usable. NULL, the initial value, turns this off. */
HVD_API void hvd_set_interrupt(hvd_interrupted interrupted, void* context);

/* The value of a setting of docs/settings.md as the library reads it. `variable` is its name, such
 * as "HOROVOD_TLS". A switch is "1" or "0", a list has commas, and a setting that is not set has
 * its default. If `text` is not NULL, it is taken as the value; otherwise the environment of this
 * process is read. HVD_NOT_FOUND if there is no such setting, HVD_INVALID_ARGUMENT if the value is
 * malformed. `*value` stays valid until the next call of this function by this thread. */
HVD_API hvd_code hvd_setting(const char* variable, const char* text, const char** value);

/* ---- Start and end ------------------------------------------------------------------------- */

typedef struct hvd_rank_list {
  const int32_t* ranks;
  int32_t count;
} hvd_rank_list;

typedef struct hvd_init_options {
  size_t size;
  hvd_rank_list ranks;               /* the ranks that take part; empty: all that were started */
  const hvd_rank_list* process_sets; /* created with ids 1, 2, ...; the same on all ranks */
  int32_t process_set_count;
} hvd_init_options;

/* Joins the job that the HOROVOD_* variables describe, and waits for its other ranks. Without these
 * variables the process is a job of one rank. `options` may be NULL.
 * Does nothing while a job is running. If the job has ended because a rank was lost or shut down,
 * hvd_init leaves it and starts a new one. After a failure there is no job, and hvd_init may be
 * called again. Each rank counts its calls with the same `ranks`, and ranks with the same count
 * find each other. So if one rank calls hvd_init again, all ranks must call it again.
 * Removes _HOROVOD_SECRET_KEY from the environment, so that programs which the caller starts do not
 * receive it. Later calls in this process, and in its forked children, still use it. */
HVD_API hvd_code hvd_init(const hvd_init_options* options);
/* Leaves the job and ends it on all ranks: operations in flight fail with HVD_ABORTED. When it
 * returns, all threads of the library have ended, and hvd_init may be called again. Does nothing if
 * there is no job. A process that exits without calling it does not hang, but the other ranks
 * report it as lost (HVD_PEER_LOST). */
HVD_API void hvd_shutdown(void);
/* 1 after a successful hvd_init until hvd_shutdown, even if the job has failed; otherwise 0. */
HVD_API int hvd_is_initialized(void);

/* Of this process. All return -1 without a job. */
HVD_API int hvd_rank(void);
HVD_API int hvd_size(void);
HVD_API int hvd_local_rank(void); /* index among the ranks of this host */
HVD_API int hvd_local_size(void);
HVD_API int hvd_cross_rank(void); /* index of this host among the hosts that have this local rank */
HVD_API int hvd_cross_size(void);
HVD_API int hvd_is_homogeneous(void); /* 1 if all hosts have the same number of ranks */

/* ---- Process sets -------------------------------------------------------------------------- */

#define HVD_GLOBAL_SET 0

/* Collective: every rank of the job calls it, even a rank that is not in the set, with the same
 * `ranks`. All ranks make such calls in the same order. HVD_PRECONDITION unless
 * HOROVOD_DYNAMIC_PROCESS_SETS=1. HVD_ALREADY_EXISTS if there is a set of these ranks. */
HVD_API hvd_code hvd_add_process_set(hvd_rank_list ranks, int32_t* id);
/* Collective in the same way. Operations in flight in the set fail with HVD_ABORTED. `*removed`
 * becomes 1, or 0 for the global set and for a set that does not exist; `removed` may be NULL. */
HVD_API hvd_code hvd_remove_process_set(int32_t id, int* removed);
/* Write at most `room` ids, or ranks, to the array, in ascending order, and their total number to
 * `*count`. */
HVD_API hvd_code hvd_process_sets(int32_t* ids, int32_t room, int32_t* count);
HVD_API hvd_code hvd_process_set_ranks(int32_t id, int32_t* ranks, int32_t room, int32_t* count);

/* ---- Operations ---------------------------------------------------------------------------- */

typedef enum hvd_collective {
  HVD_ALLREDUCE = 0,
  HVD_ALLGATHER = 1, /* in the order of ranks; only the first dimension may differ */
  HVD_BROADCAST = 2,
  HVD_JOIN = 3, /* without tensors; as hvd_join, with a callback */
  HVD_ALLTOALL = 4,
  HVD_BARRIER = 5,
  HVD_REDUCESCATTER = 6 /* rank r of n gets rows / n rows, and one more if r < rows % n */
} hvd_collective;

typedef enum hvd_dtype {
  HVD_UINT8 = 0,
  HVD_INT8 = 1,
  HVD_UINT16 = 2,
  HVD_INT16 = 3,
  HVD_INT32 = 4,
  HVD_INT64 = 5,
  HVD_FLOAT16 = 6,
  HVD_FLOAT32 = 7,
  HVD_FLOAT64 = 8,
  HVD_BOOL = 9, /* one byte */
  HVD_BFLOAT16 = 10,
  HVD_UINT32 = 11,
  HVD_UINT64 = 12
} hvd_dtype;

/* Bytes of one element; 0 if `dtype` is not an hvd_dtype. */
HVD_API size_t hvd_dtype_size(hvd_dtype dtype);

typedef enum hvd_reduce_op {
  HVD_AVERAGE = 0,
  HVD_SUM = 1,
  HVD_ADASUM = 2,
  HVD_MIN = 3,
  HVD_MAX = 4,
  HVD_PRODUCT = 5
} hvd_reduce_op;

typedef struct hvd_operation hvd_operation;

/* Returns memory for the output of tensor `index`, whose shape is known only now; NULL fails the
 * operation. The library calls it at most once per tensor, on any thread, possibly before
 * hvd_submit returns. The engine waits for it. So it must be quick, must not throw, must not call
 * the library, and must not take a lock that any thread holds while that thread calls the library.
 */
typedef void* (*hvd_allocate)(void* context, int32_t index, const int64_t* shape, int32_t dims);
/* Called when the operation is done. `code` and `message` are those that hvd_wait and hvd_error
 * would return. The rules of hvd_allocate apply, except that it may call hvd_submit,
 * hvd_get_output, hvd_last_joined and hvd_release. */
typedef void (*hvd_done)(void* context, hvd_operation* operation, hvd_code code,
                         const char* message);

typedef struct hvd_tensor {
  size_t size;
  /* The same on all ranks, and unique among the operations in flight in the process set. NULL or ""
   * in all tensors of an operation: the library chooses the name, see hvd_request.label. */
  const char* name;
  const void* input;
  void* output; /* may be `input`. NULL: `allocate` or, without it, the library allocates */
  const int64_t* shape;
  int32_t dims;
  hvd_dtype dtype;
  const int32_t* splits; /* for an alltoall: rows for each rank; NULL: equal parts */
  int32_t split_count;
} hvd_tensor;

/* Flag: the caller calls hvd_wait for this operation next. The thread in hvd_wait carries the
 * operation out, so the library wakes no other thread for it. */
#define HVD_WILL_WAIT 1u

typedef struct hvd_request {
  size_t size;
  hvd_collective collective;
  hvd_reduce_op op; /* for allreduce and reducescatter; HVD_AVERAGE is 0 */
  int32_t root;     /* for a broadcast: a rank of the job, not an index in the set */
  double prescale;  /* result = postscale * reduction of (prescale * input); 0 means 0, not 1 */
  double postscale;
  int32_t process_set;
  uint32_t flags; /* HVD_WILL_WAIT or 0 */
  hvd_allocate allocate;
  hvd_done done;
  void* context; /* passed to the callbacks */
  /* The prefix of the names that the library chooses for operations without a name:
   * "label.noname.0", then 1, 2 and so on up to some hundred, and then 0 again. In a group the
   * names are "label.noname.0_1of3" and so on. All ranks must submit the unnamed operations of one
   * label and process set in the same order. Any number of them may be in flight. NULL: the name of
   * the collective, for example "allreduce", or for a group "grouped_allreduce". */
  const char* label;
} hvd_request;

#define HVD_REQUEST_INIT                                                                         \
  {                                                                                              \
    sizeof(hvd_request), HVD_ALLREDUCE, HVD_AVERAGE, 0, 1.0, 1.0, HVD_GLOBAL_SET, 0, NULL, NULL, \
        NULL, NULL                                                                               \
  }

/* Starts a collective on one tensor, or on a group of tensors that is one operation: it is done
 * when all of its tensors are done. Either all tensors are started or none. Never waits for other
 * ranks. If it fails, nothing was started, `done` is not called and `*operation` is NULL.
 * `*operation` is set before `done` is called; pass it to hvd_release. `operation` may be NULL if
 * there is a `done` callback. A barrier and a join have no tensors. At most one barrier is in
 * flight in a process set. */
HVD_API hvd_code hvd_submit(const hvd_request* request, const hvd_tensor* tensors, int32_t count,
                            hvd_operation** operation);
/* Declares that this rank has no more data. Until all ranks have joined, it takes part in the
 * reductions of the other ranks with values that do not change the result. Global set only. */
HVD_API hvd_code hvd_join(hvd_operation** operation);

/* 1 if the operation is done, successfully or not; otherwise 0. Does not advance it. */
HVD_API int hvd_poll(const hvd_operation* operation);
/* Waits until the operation is done; the waiting thread carries out operations meanwhile. Returns
 * the outcome of the operation. After `seconds` it returns HVD_TIMEOUT instead: the operation
 * continues, and hvd_wait may be called again; below 0 there is no such limit. The outcome itself
 * may be HVD_TIMEOUT too; hvd_poll then returns 1. A thread that has begun to carry out a
 * collective finishes it before it returns. */
HVD_API hvd_code hvd_wait(hvd_operation* operation, double seconds);
/* Once the operation of hvd_join is done: the rank that joined last. */
HVD_API int hvd_last_joined(const hvd_operation* operation);

typedef struct hvd_output {
  size_t size;
  void* data;
  const int64_t* shape;
  int32_t dims;
  const int32_t* received_splits; /* for an alltoall: rows from each rank */
  int32_t split_count;
} hvd_output;
/* The result of tensor `index`, once the operation is done successfully. The memory that `output`
 * points to stays valid until hvd_release, except `data` that the caller or `allocate` provided:
 * the caller owns that. */
HVD_API hvd_code hvd_get_output(const hvd_operation* operation, int32_t index, hvd_output* output);
/* Frees the handle. If the operation is not done, it continues and still uses the memory of its
 * tensors. NULL is allowed. */
HVD_API void hvd_release(hvd_operation* operation);

/* ---- Sealed bytes -------------------------------------------------------------------------- */

/* Bytes that are dangerous to interpret, such as a pickle, are sent with a seal. The seal proves
 * which rank of this job sent the bytes. It is bound to one operation, which must already be done:
 * for example, to the operation by which the ranks agreed on the number of bytes. A second
 * operation then sends the sealed bytes:
 *
 *   hvd_submit, hvd_wait: an allgather of lengths             on all ranks
 *   hvd_seal(lengths, data, length + HVD_SEAL_BYTES)          on the rank that sends
 *   hvd_submit, hvd_wait: a broadcast of data                 on all ranks
 *   hvd_check_seal(lengths, root, data, length + HVD_SEAL_BYTES)    on the ranks that receive
 *
 * A seal is HMAC-SHA-256, under a key derived from the job's secret, of the job, the process set,
 * the name of the operation, its position in the order of operations (the same on all ranks), the
 * sending rank, and the bytes. Seal at most one array for each operation: an attacker could swap
 * two arrays that are sealed for the same operation. */
#define HVD_SEAL_BYTES 32
/* Computes the seal of `data` without its last HVD_SEAL_BYTES bytes, and writes the seal to these
 * last bytes. `bytes` is the size of `data`, including the seal. HVD_PRECONDITION unless the
 * operation is done successfully; HVD_ABORTED once its job has ended. */
HVD_API hvd_code hvd_seal(const hvd_operation* operation, void* data, size_t bytes);
/* HVD_OK if the last HVD_SEAL_BYTES of `data` are the seal that `rank` of the job made of the bytes
 * before them, for this operation. Otherwise HVD_UNAUTHENTICATED: do not interpret the bytes. */
HVD_API hvd_code hvd_check_seal(const hvd_operation* operation, int32_t rank, const void* data,
                                size_t bytes);

/* ---- Timeline ------------------------------------------------------------------------------ */

/* Starts to write a timeline to `path`. `mark_cycles` as HOROVOD_TIMELINE_MARK_CYCLES.
 * HVD_PRECONDITION unless HOROVOD_TIMELINE was set at hvd_init. */
HVD_API hvd_code hvd_start_timeline(const char* path, int mark_cycles);
/* Ends the timeline. The file is complete when it returns. */
HVD_API hvd_code hvd_stop_timeline(void);

/* ---- For launchers ------------------------------------------------------------------------- */

/* Characters of a secret in text form, with the terminating zero. */
#define HVD_SECRET_TEXT 45
/* Makes a new random job secret, in the form of _HOROVOD_SECRET_KEY. */
HVD_API void hvd_make_secret(char text[HVD_SECRET_TEXT]);

/* The functions hvd_store_* are the server and the client of the rendezvous, where the ranks of a
 * job find each other. They keep the name "store" for compatibility with programs that use them;
 * they have nothing to do with the data stores of Horovod's Estimators. */

/* A running rendezvous server. */
typedef struct hvd_store hvd_store;
/* Starts the rendezvous server of a job. Its ranks find it by HOROVOD_RENDEZVOUS=host:port.
 * `secret` is the job's secret. `bind` is a numeric address with or without a port ("0.0.0.0",
 * "[::1]:7000"); NULL: every address, any port. `tls` must equal HOROVOD_TLS of the ranks. One
 * server serves one job, also if the ranks of the job call hvd_init several times. The process that
 * starts it need not be a rank. Stop it with hvd_store_stop. */
HVD_API hvd_code hvd_store_start(const char* secret, const char* bind, int tls, hvd_store** store);
/* The port on which the server listens. */
HVD_API int hvd_store_port(const hvd_store* store);
/* Closes all connections, ends the server and frees it. NULL is allowed. */
HVD_API void hvd_store_stop(hvd_store* store);

/* A connection to a rendezvous server, by which a launcher can exchange values of its own with
 * other processes. Keys that begin with "job-" are reserved for the ranks. At most one thread at a
 * time may use a client. A value has at most 4 MiB. */
typedef struct hvd_store_client hvd_store_client;
/* `address` has the form of HOROVOD_RENDEZVOUS. Tries for `seconds`, because the server may start
 * later. Free the client with hvd_store_disconnect. */
HVD_API hvd_code hvd_store_connect(const char* address, const char* secret, int tls, double seconds,
                                   hvd_store_client** client);
/* Creates the key or replaces its value. */
HVD_API hvd_code hvd_store_set(hvd_store_client* client, const char* key, const void* value,
                               size_t bytes);
/* Waits until the key exists. HVD_TIMEOUT after `seconds`; the client stays usable. `*value` stays
 * valid until the next call with this client. */
HVD_API hvd_code hvd_store_get(hvd_store_client* client, const char* key, double seconds,
                               const void** value, size_t* bytes);
/* Adds `delta` to the number in decimal digits that the key holds, or to 0 if the key does not
 * exist, and returns the sum in `*sum`. The addition is atomic: if several clients add 1, no two
 * get the same sum. */
HVD_API hvd_code hvd_store_add(hvd_store_client* client, const char* key, int64_t delta,
                               int64_t* sum);
/* Succeeds also if the key does not exist. */
HVD_API hvd_code hvd_store_delete(hvd_store_client* client, const char* key);
/* Closes the connection and frees the client. NULL is allowed. */
HVD_API void hvd_store_disconnect(hvd_store_client* client);

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#ifdef __cplusplus
}
#endif
#endif /* HVD_H_ */
