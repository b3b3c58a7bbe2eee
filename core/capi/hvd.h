/* hvd.h: the C interface of the library, and its only door. Front ends for every language and
 * framework stand on it; it knows none of them.
 *
 * Conventions
 * - Functions that can fail return an hvd_code: HVD_OK or what went wrong. hvd_error() then tells
 *   in words what it was and what to do about it, for the calling thread, until its next call.
 * - Safe from any thread, unless a comment says otherwise.
 * - Pointers to const are borrowed for the call. What a function gives back belongs to the library
 *   unless there is a function that frees it.
 * - Structures begin with their size, so that later versions can add fields. Start from
 *   HVD_REQUEST_INIT, or from {sizeof it} for the others; what is left zero means the default.
 * - No function of this header blocks for ever: a lost rank, a shutdown, or the time limits of the
 *   settings end every wait. Only hvd_wait and hvd_barrier wait for other ranks' programs.
 */
#ifndef HVD_H_
#define HVD_H_

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
  HVD_ABORTED = 5, /* shut down, here or on another rank */
  HVD_UNAUTHENTICATED = 6,
  HVD_NOT_FOUND = 7,
  HVD_UNAVAILABLE = 8, /* this machine cannot do it */
  HVD_IO = 9,
  HVD_INTERNAL = 10,
  HVD_ALREADY_EXISTS = 11,
  HVD_NOT_INITIALIZED = 12
} hvd_code;

/* Of the last call of this thread that failed; never NULL. */
HVD_API const char* hvd_error(void);
/* "1.0.0". */
HVD_API const char* hvd_version(void);

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
 * Waits for the other ranks. `options` may be NULL. Does nothing if it was done before. */
HVD_API hvd_code hvd_init(const hvd_init_options* options);
/* Leaves the job and ends it on all ranks: operations in flight fail with HVD_ABORTED. hvd_init may
 * be called again. Does nothing if there is no job. */
HVD_API void hvd_shutdown(void);
HVD_API int hvd_is_initialized(void);

/* -1 without a job. */
HVD_API int hvd_rank(void);
HVD_API int hvd_size(void);
HVD_API int hvd_local_rank(void);
HVD_API int hvd_local_size(void);
HVD_API int hvd_cross_rank(void);
HVD_API int hvd_cross_size(void);
HVD_API int hvd_is_homogeneous(void);

/* ---- Process sets -------------------------------------------------------------------------- */

#define HVD_GLOBAL_SET 0

/* Collective: every rank of the job calls it with the same ranks, in the same order of calls. */
HVD_API hvd_code hvd_add_process_set(hvd_rank_list ranks, int32_t* id);
/* `removed` becomes 0 for the global set and for one that does not exist. */
HVD_API hvd_code hvd_remove_process_set(int32_t id, int* removed);
/* Puts at most `room` ids, or ranks, into the array, and their whole number into `count`. */
HVD_API hvd_code hvd_process_sets(int32_t* ids, int32_t room, int32_t* count);
HVD_API hvd_code hvd_process_set_ranks(int32_t id, int32_t* ranks, int32_t room, int32_t* count);

/* ---- Operations ---------------------------------------------------------------------------- */

typedef enum hvd_collective {
  HVD_ALLREDUCE = 0,
  HVD_ALLGATHER = 1,
  HVD_BROADCAST = 2,
  HVD_ALLTOALL = 4,
  HVD_BARRIER = 5,
  HVD_REDUCESCATTER = 6
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
  HVD_BOOL = 9,
  HVD_BFLOAT16 = 10,
  HVD_UINT32 = 11,
  HVD_UINT64 = 12
} hvd_dtype;

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
 * operation. Called at most once per tensor, on any thread, while the engine waits: it must be
 * quick and must not call the library, nor take a lock that is held while the library is called. */
typedef void* (*hvd_allocate)(void* context, int32_t index, const int64_t* shape, int32_t dims);
/* The operation is done; `code` and `message` as hvd_wait and hvd_error would give them. The same
 * rules as for hvd_allocate. */
typedef void (*hvd_done)(void* context, hvd_code code, const char* message);

typedef struct hvd_tensor {
  size_t size;
  const char* name; /* the same on all ranks; unique among the operations in flight of a set */
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
  int32_t root;     /* of a broadcast: a rank of the job */
  double prescale;  /* result = postscale * reduction of (prescale * input) */
  double postscale;
  int32_t process_set;
  uint32_t flags;
  hvd_allocate allocate;
  hvd_done done;
  void* context; /* for the callbacks */
} hvd_request;

#define HVD_REQUEST_INIT                                                                         \
  {                                                                                              \
    sizeof(hvd_request), HVD_ALLREDUCE, HVD_AVERAGE, 0, 1.0, 1.0, HVD_GLOBAL_SET, 0, NULL, NULL, \
        NULL                                                                                     \
  }

/* Starts a collective on one tensor, or on several that complete as one. Never waits. Input and
 * output have to stay until the operation is done. On failure nothing was started, and `done` is
 * not called. `operation` may be NULL if there is a `done` callback; otherwise it has to be given
 * to hvd_release. A barrier has no tensors. */
HVD_API hvd_code hvd_submit(const hvd_request* request, const hvd_tensor* tensors, int32_t count,
                            hvd_operation** operation);
/* This rank has no more data: until all ranks have joined it takes part in the others' reductions
 * with values that change nothing. Global set only. */
HVD_API hvd_code hvd_join(hvd_operation** operation);

/* Whether it is done. */
HVD_API int hvd_poll(const hvd_operation* operation);
/* Waits, and works on it meanwhile; `seconds` below 0 waits until it is done. Returns how it went,
 * or HVD_TIMEOUT, after which it goes on and may be waited for again. */
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
 * hvd_release; `data` only if neither the caller nor the allocator has given it. */
HVD_API hvd_code hvd_get_output(const hvd_operation* operation, int32_t index, hvd_output* output);
/* The operation goes on if it is not done. NULL is allowed. */
HVD_API void hvd_release(hvd_operation* operation);

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
/* Starts the rendezvous store of a job. `bind` is an address with or without a port ("0.0.0.0",
 * "[::1]:7000"); NULL: every address, any port. */
HVD_API hvd_code hvd_store_start(const char* secret, const char* bind, int tls, hvd_store** store);
HVD_API int hvd_store_port(const hvd_store* store);
/* NULL is allowed. */
HVD_API void hvd_store_stop(hvd_store* store);

#ifdef __cplusplus
}
#endif
#endif /* HVD_H_ */
