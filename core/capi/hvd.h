/* SPDX-License-Identifier: Apache-2.0 */
/* hvd.h: the C interface of the library, and its only door. Front ends for every language and
 * framework stand on it; it knows none of them. For C++ there is hvd.hpp on top.
 *
 * Conventions
 * - Functions that can fail return an hvd_code: HVD_OK or what went wrong. hvd_error() then says
 *   in words what it was and what to do about it.
 * - Safe from any thread, unless a comment says otherwise.
 * - Arguments are borrowed for the call, but for the memory of tensors, which is borrowed until the
 *   operation is done. What a function gives back belongs to the library unless there is a function
 *   that frees it.
 * - Structures begin with their size, so that later versions can add fields. Start from
 *   HVD_REQUEST_INIT, or from {sizeof(hvd_tensor)} and so on; what is left zero means the default.
 *   A program runs with any later library of the same major version: fields that its header did
 *   not have keep their default. It also runs with an earlier library as long as it leaves zero
 *   what that does not know; a field that is set is HVD_INVALID_ARGUMENT then, and in an
 *   hvd_output it comes back zero. A change of this header appends fields to a structure, each at
 *   or after the sizeof that the structure had, without padding behind the last one.
 * - Nothing blocks for ever: a lost rank, a shutdown, or the time limits of the settings end every
 *   wait. hvd_wait waits for what the other ranks' programs do, and so do hvd_init,
 *   hvd_add_process_set and hvd_remove_process_set.
 * - A child that was forked without exec has no job: it may call hvd_init to become a rank of its
 *   own, and must not touch its parent's operations but to release them.
 *
 * One operation, from start to end:
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
  HVD_PRECONDITION = 2,     /* ranks disagree, or the call came at the wrong time */
  HVD_PEER_LOST = 3,        /* a rank died; hvd_shutdown and hvd_init start anew */
  HVD_TIMEOUT = 4,
  HVD_ABORTED = 5,         /* shut down, here or on another rank */
  HVD_UNAUTHENTICATED = 6, /* ranks do not have the same secret */
  HVD_NOT_FOUND = 7,
  HVD_UNAVAILABLE = 8, /* this machine cannot do it: no memory, no permission, no space */
  HVD_IO = 9,
  HVD_INTERNAL = 10, /* a bug of the library */
  HVD_ALREADY_EXISTS = 11,
  HVD_NOT_INITIALIZED = 12, /* there is no job: hvd_init comes first */
  HVD_INTERRUPTED = 13      /* hvd_set_interrupt's function has said so */
} hvd_code;

/* Why the last call of this thread that failed has failed; never NULL. The text stays until this
 * thread's next call that fails. */
HVD_API const char* hvd_error(void);
/* "1.0.0". */
HVD_API const char* hvd_version(void);

/* Whether the caller wants to stop waiting: non-zero is yes. Must not call the library. */
typedef int (*hvd_interrupted)(void* context);
/* From now on hvd_init and the calls of a store's client, made by this thread, ask `interrupted`
 * about every 50 ms while they wait, and fail with HVD_INTERRUPTED within some 100 ms of a yes.
 * After an interrupted hvd_init there is no job; ranks that wait for this one fail. A client of a
 * store stays usable. NULL, as at first: they do not ask. */
HVD_API void hvd_set_interrupt(hvd_interrupted interrupted, void* context);

/* A setting of docs/settings.md as the library reads it, by the name of its variable: a switch is
 * "1" or "0", a list has commas, and what is not set has its default. `text` is read if it is
 * given, otherwise the environment of this process. HVD_NOT_FOUND if there is no such setting,
 * HVD_INVALID_ARGUMENT if the value is malformed. `*value` stays until this thread's next call. */
HVD_API hvd_code hvd_setting(const char* variable, const char* text, const char** value);

/* ---- Start and end ------------------------------------------------------------------------- */

typedef struct hvd_rank_list {
  const int32_t* ranks;
  int32_t count;
} hvd_rank_list;

typedef struct hvd_init_options {
  size_t size;
  hvd_rank_list ranks;               /* of those that were started; empty: all */
  const hvd_rank_list* process_sets; /* made at once, with ids 1, 2, ...; equal on all ranks */
  int32_t process_set_count;
} hvd_init_options;

/* Joins the job that the HOROVOD_* variables describe; without them the process is a job of one.
 * Waits for the other ranks. `options` may be NULL. Does nothing while a job is running; one that
 * has ended, because a rank was lost or has shut down, is left first. After a failure there is no
 * job, and hvd_init may be called again. Ranks find each other by how many times they have called
 * with the same ranks: when one tries again, all have to.
 * Takes _HOROVOD_SECRET_KEY out of the environment, so that programs which the caller starts do not
 * get it. Later calls of this process, and of its forked children, still know it. */
HVD_API hvd_code hvd_init(const hvd_init_options* options);
/* Leaves the job and ends it on all ranks: operations in flight fail with HVD_ABORTED. Every thread
 * of the library has ended on return. hvd_init may be called again. Does nothing if there is no
 * job. A process that exits without it does not hang, but the other ranks take it for lost. */
HVD_API void hvd_shutdown(void);
/* Whether hvd_init was called and hvd_shutdown was not; also true once the job has failed. */
HVD_API int hvd_is_initialized(void);

/* -1 without a job. */
HVD_API int hvd_rank(void);
HVD_API int hvd_size(void);
HVD_API int hvd_local_rank(void); /* among the ranks of this host */
HVD_API int hvd_local_size(void);
HVD_API int hvd_cross_rank(void); /* of this host among those that have a rank of this local rank */
HVD_API int hvd_cross_size(void);
HVD_API int hvd_is_homogeneous(void); /* every host has as many ranks */

/* ---- Process sets -------------------------------------------------------------------------- */

#define HVD_GLOBAL_SET 0

/* Collective: every rank of the job calls it with the same ranks, in the same order of calls, also
 * those that are not in the set. Needs HOROVOD_DYNAMIC_PROCESS_SETS=1, else HVD_PRECONDITION;
 * HVD_ALREADY_EXISTS if there is a set of these ranks. */
HVD_API hvd_code hvd_add_process_set(hvd_rank_list ranks, int32_t* id);
/* Collective in the same way; what is in flight in the set fails with HVD_ABORTED. `removed`, which
 * may be NULL, becomes 0 for the global set and for one that does not exist. */
HVD_API hvd_code hvd_remove_process_set(int32_t id, int* removed);
/* Puts at most `room` ids, or ranks, into the array in ascending order, and their whole number into
 * `count`. */
HVD_API hvd_code hvd_process_sets(int32_t* ids, int32_t room, int32_t* count);
HVD_API hvd_code hvd_process_set_ranks(int32_t id, int32_t* ranks, int32_t room, int32_t* count);

/* ---- Operations ---------------------------------------------------------------------------- */

typedef enum hvd_collective {
  HVD_ALLREDUCE = 0,
  HVD_ALLGATHER = 1, /* one after the other by rank; only the first dimension may differ */
  HVD_BROADCAST = 2,
  HVD_JOIN = 3, /* no tensors: as hvd_join, with callback */
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

/* Bytes of one element; 0 if there is no such dtype. */
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

/* Gives memory for the output of tensor `index`, whose size is known only now; NULL fails the
 * operation. Called at most once per tensor, on any thread, perhaps before hvd_submit returns,
 * while the engine stands still: it must be quick, must not throw or call the library, and must not
 * take a lock that anybody holds while calling the library. */
typedef void* (*hvd_allocate)(void* context, int32_t index, const int64_t* shape, int32_t dims);
/* The operation is done; `code` and `message` as hvd_wait and hvd_error would give them. The same
 * rules as for hvd_allocate, but hvd_submit, hvd_get_output, hvd_last_joined and hvd_release may be
 * called. */
typedef void (*hvd_done)(void* context, hvd_operation* operation, hvd_code code,
                         const char* message);

typedef struct hvd_tensor {
  size_t size;
  /* The same on all ranks; unique among the operations in flight of a set. NULL or "", in all
   * tensors of an operation: the library numbers it, see hvd_request.label. */
  const char* name;
  const void* input;
  void* output; /* may be `input`. NULL: from the allocator, or else kept by the operation */
  const int64_t* shape;
  int32_t dims;
  hvd_dtype dtype;
  const int32_t* splits; /* of an alltoall: rows for each rank; NULL: equal parts */
  int32_t split_count;
} hvd_tensor;

/* The caller will hvd_wait for this operation next: nobody else is woken to work on it. */
#define HVD_WILL_WAIT 1u

typedef struct hvd_request {
  size_t size;
  hvd_collective collective;
  hvd_reduce_op op; /* of allreduce and reducescatter; HVD_AVERAGE is 0 */
  int32_t root;     /* of a broadcast: a rank of the job, whatever the set */
  double prescale; /* result = postscale * reduction of (prescale * input); 0 is 0, not a default */
  double postscale;
  int32_t process_set;
  uint32_t flags;
  hvd_allocate allocate;
  hvd_done done;
  void* context; /* for the callbacks */
  /* What operations without a name are called: "label.noname.0", then 1, 2 and so on up to some
   * hundred and 0 again, and in a group "label.noname.0_1of3". Ranks have to submit those of one
   * label and process set in the same order. Any number may be in flight. NULL: the collective,
   * "allreduce", and of a group "grouped_allreduce". */
  const char* label;
} hvd_request;

#define HVD_REQUEST_INIT                                                                         \
  {                                                                                              \
    sizeof(hvd_request), HVD_ALLREDUCE, HVD_AVERAGE, 0, 1.0, 1.0, HVD_GLOBAL_SET, 0, NULL, NULL, \
        NULL, NULL                                                                               \
  }

/* Starts a collective on one tensor, or on several that complete as one: all of them are started or
 * none. Never waits. On failure nothing was started, `done` is not called and `*operation` is NULL.
 * `operation` may be NULL if there is a `done` callback; otherwise it has to be given to
 * hvd_release. It is set before `done` is called. A barrier and a join have no tensors, and one
 * barrier at a time is in flight in a set. */
HVD_API hvd_code hvd_submit(const hvd_request* request, const hvd_tensor* tensors, int32_t count,
                            hvd_operation** operation);
/* This rank has no more data: until all ranks have joined it takes part in the others' reductions
 * with values that change nothing. Global set only. */
HVD_API hvd_code hvd_join(hvd_operation** operation);

/* Whether it is done, well or not. Works on nothing. */
HVD_API int hvd_poll(const hvd_operation* operation);
/* Waits, and works on it meanwhile; `seconds` below 0 waits until it is done. Returns how it went,
 * or HVD_TIMEOUT, after which it goes on and may be waited for again (hvd_poll tells the two kinds
 * of HVD_TIMEOUT apart). A thread that has begun to carry out a collective finishes it first. */
HVD_API hvd_code hvd_wait(hvd_operation* operation, double seconds);
/* After hvd_join is done: the rank that joined last. */
HVD_API int hvd_last_joined(const hvd_operation* operation);

typedef struct hvd_output {
  size_t size;
  void* data;
  const int64_t* shape;
  int32_t dims;
  const int32_t* received_splits; /* of an alltoall: rows from each rank */
  int32_t split_count;
} hvd_output;
/* The result of a tensor, once the operation is done without failure. What it points to lives until
 * hvd_release, but for `data` that the caller or the allocator has given, which is theirs. */
HVD_API hvd_code hvd_get_output(const hvd_operation* operation, int32_t index, hvd_output* output);
/* The operation goes on if it is not done, and its tensors stay borrowed. NULL is allowed. */
HVD_API void hvd_release(hvd_operation* operation);

/* ---- Sealed bytes -------------------------------------------------------------------------- */

/* Bytes that are dangerous to interpret, such as a pickle, travel with a seal, which proves that a
 * rank of this job has sent them for one operation. That operation is done already: with it the
 * ranks have agreed, for instance, on how many bytes there are. The sealed bytes follow in another:
 *
 *   hvd_submit, hvd_wait: an allgather of lengths             on all ranks
 *   hvd_seal(lengths, data, length + HVD_SEAL_BYTES)          on the rank that sends
 *   hvd_submit, hvd_wait: a broadcast of data                 on all ranks
 *   hvd_check_seal(lengths, root, data, length + HVD_SEAL_BYTES)    on those that receive
 *
 * A seal is HMAC-SHA-256, under a key made from the job's secret, over the job, the process set,
 * the operation's name and its place in the order of operations, which is the same on all ranks,
 * the sending rank, and the bytes. Seal no more than one array for an operation: two of them could
 * be exchanged for each other. */
#define HVD_SEAL_BYTES 32
/* The last HVD_SEAL_BYTES of `data` become the seal of those before. HVD_PRECONDITION unless the
 * operation is done without failure, HVD_ABORTED once its job has ended. */
HVD_API hvd_code hvd_seal(const hvd_operation* operation, void* data, size_t bytes);
/* HVD_OK if the last HVD_SEAL_BYTES are the seal that `rank` of the job has made of those before
 * them, for this operation. HVD_UNAUTHENTICATED if not: do not look at the bytes then. */
HVD_API hvd_code hvd_check_seal(const hvd_operation* operation, int32_t rank, const void* data,
                                size_t bytes);

/* ---- Timeline ------------------------------------------------------------------------------ */

/* HVD_PRECONDITION unless HOROVOD_TIMELINE was set at hvd_init. */
HVD_API hvd_code hvd_start_timeline(const char* path, int mark_cycles);
/* The file is complete on return. */
HVD_API hvd_code hvd_stop_timeline(void);

/* ---- For launchers ------------------------------------------------------------------------- */

/* Room for a secret in text form and the zero after it. */
#define HVD_SECRET_TEXT 45
/* A new job secret, as _HOROVOD_SECRET_KEY has to carry it. */
HVD_API void hvd_make_secret(char text[HVD_SECRET_TEXT]);

typedef struct hvd_store hvd_store;
/* Starts the rendezvous server of a job, where ranks with HOROVOD_RENDEZVOUS=host:port meet. `bind`
 * is a numeric address with or without a port ("0.0.0.0", "[::1]:7000"); NULL: every address, any
 * port. `tls` as HOROVOD_TLS of the ranks. One store serves one job, however often its ranks start
 * anew; the process that starts it need not be one of them. */
HVD_API hvd_code hvd_store_start(const char* secret, const char* bind, int tls, hvd_store** store);
HVD_API int hvd_store_port(const hvd_store* store);
/* NULL is allowed. */
HVD_API void hvd_store_stop(hvd_store* store);

/* A connection to a store, for values of the launcher's own under names that do not begin with
 * "job-", which are the ranks'. One thread at a time may use it. A value has at most 4 MiB. */
typedef struct hvd_store_client hvd_store_client;
/* `address` as HOROVOD_RENDEZVOUS. Tries for as many seconds: the store may come up later. */
HVD_API hvd_code hvd_store_connect(const char* address, const char* secret, int tls, double seconds,
                                   hvd_store_client** client);
/* Creates or replaces. */
HVD_API hvd_code hvd_store_set(hvd_store_client* client, const char* key, const void* value,
                               size_t bytes);
/* Waits until there is such a key; HVD_TIMEOUT after as many seconds, and the client stays usable.
 * The value belongs to the client, until its next call. */
HVD_API hvd_code hvd_store_get(hvd_store_client* client, const char* key, double seconds,
                               const void** value, size_t* bytes);
/* Adds to the number that a key holds, as decimal digits, or to 0, and gives the sum. Of several
 * clients that add, no two get the same. */
HVD_API hvd_code hvd_store_add(hvd_store_client* client, const char* key, int64_t delta,
                               int64_t* sum);
/* It is no error if there is no such key. */
HVD_API hvd_code hvd_store_delete(hvd_store_client* client, const char* key);
/* NULL is allowed. */
HVD_API void hvd_store_disconnect(hvd_store_client* client);

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#ifdef __cplusplus
}
#endif
#endif /* HVD_H_ */
