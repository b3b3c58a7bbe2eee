/* SPDX-License-Identifier: Apache-2.0 */
/* hvd.h in a C program: a job of one rank, and failures before there is a job. */
#include "capi/hvd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char** environ;

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "%s:%d: %s is not so; hvd_error(): %s\n", __FILE__, __LINE__, #condition, \
              hvd_error());                                                                     \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)
#define CHECK_FAILS(call, code, words)           \
  do {                                           \
    CHECK((call) == (code));                     \
    CHECK(strstr(hvd_error(), (words)) != NULL); \
  } while (0)

static void forget_settings(void) {
  for (char** setting = environ; *setting != NULL;) {
    char name[256];
    const size_t length = strcspn(*setting, "=");
    const int ours = strstr(*setting, "HOROVOD_") != NULL && length < sizeof name;
    if (!ours) {
      ++setting;
      continue;
    }
    memcpy(name, *setting, length);
    name[length] = 0;
    unsetenv(name);
  }
}

static hvd_tensor tensor_of(const char* name, float* values, const int64_t* count) {
  hvd_tensor tensor = {sizeof tensor};
  tensor.name = name;
  tensor.input = values;
  tensor.output = values;
  tensor.shape = count;
  tensor.dims = 1;
  tensor.dtype = HVD_FLOAT32;
  return tensor;
}

/* A caller that stops its waits at the third call. */
static int wants_to_stop(void* questions) { return ++*(int*)questions >= 3; }

/* ---- Before there is a job ---- */

static void nothing_works_without_a_job(void) {
  float value = 1;
  const int64_t one = 1;
  const hvd_request request = HVD_REQUEST_INIT;
  const hvd_tensor tensor = tensor_of("early", &value, &one);
  hvd_operation* operation = (hvd_operation*)&value;
  int32_t id = 0;
  CHECK(!hvd_is_initialized());
  CHECK(hvd_rank() == -1 && hvd_size() == -1 && hvd_local_rank() == -1);
  CHECK(hvd_local_size() == -1 && hvd_cross_rank() == -1 && hvd_cross_size() == -1);
  CHECK(hvd_is_homogeneous() == -1);
  CHECK_FAILS(hvd_submit(&request, &tensor, 1, &operation), HVD_NOT_INITIALIZED,
              "has not been initialized");
  CHECK(operation == NULL);
  CHECK_FAILS(hvd_join(&operation), HVD_NOT_INITIALIZED, "hvd_init");
  CHECK_FAILS(hvd_add_process_set((hvd_rank_list){&id, 1}, &id), HVD_NOT_INITIALIZED, "hvd_init");
  CHECK_FAILS(hvd_process_sets(NULL, 0, &id), HVD_NOT_INITIALIZED, "hvd_init");
  CHECK_FAILS(hvd_start_timeline("trace.json", 0), HVD_NOT_INITIALIZED, "hvd_init");
  hvd_shutdown();
}

static void a_failed_start_says_what_is_missing(void) {
  char address[64];
  char secret[HVD_SECRET_TEXT];
  char other[HVD_SECRET_TEXT];
  hvd_store* store = NULL;
  setenv("HOROVOD_FUSION_THRESHOLD", "64MB", 1);
  CHECK_FAILS(hvd_init(NULL), HVD_INVALID_ARGUMENT, "HOROVOD_FUSION_THRESHOLD");
  unsetenv("HOROVOD_FUSION_THRESHOLD");

  setenv("HOROVOD_SIZE", "2", 1);
  setenv("HOROVOD_RANK", "1", 1);
  setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", "0.5", 1);
  CHECK_FAILS(hvd_init(NULL), HVD_INVALID_ARGUMENT, "HOROVOD_RENDEZVOUS");
  hvd_make_secret(secret);
  CHECK(strlen(secret) == HVD_SECRET_TEXT - 1);
  CHECK(hvd_store_start(secret, "127.0.0.1", 0, &store) == HVD_OK);
  CHECK(hvd_store_port(store) > 0);
  snprintf(address, sizeof address, "127.0.0.1:%d", hvd_store_port(store));
  setenv("HOROVOD_RENDEZVOUS", address, 1);
  CHECK_FAILS(hvd_init(NULL), HVD_INVALID_ARGUMENT, "_HOROVOD_SECRET_KEY");
  hvd_make_secret(other);
  CHECK(strcmp(secret, other) != 0);
  setenv("_HOROVOD_SECRET_KEY", other, 1);
  CHECK_FAILS(hvd_init(NULL), HVD_UNAUTHENTICATED, address);
  CHECK(strstr(hvd_error(), other) == NULL);
  CHECK(getenv("_HOROVOD_SECRET_KEY") == NULL);
  CHECK_FAILS(hvd_init(NULL), HVD_UNAUTHENTICATED,
              address); /* the process still has the same secret */

  setenv("_HOROVOD_SECRET_KEY", secret, 1);
  CHECK_FAILS(hvd_init(NULL), HVD_TIMEOUT, "rank"); /* rank 0 does not start */
  hvd_store_stop(store);
  CHECK(hvd_init(NULL) != HVD_OK); /* no process listens */
  CHECK(strstr(hvd_error(), address) != NULL);
  CHECK(!hvd_is_initialized() && hvd_rank() == -1);
  forget_settings();

  CHECK_FAILS(hvd_store_start("short", NULL, 0, &store), HVD_INVALID_ARGUMENT, "base64");
  CHECK_FAILS(hvd_store_start(secret, "nowhere", 0, &store), HVD_INVALID_ARGUMENT, "nowhere");
  CHECK(store == NULL);
  hvd_store_stop(NULL);
}

/* ---- A job of one rank ---- */

static void start(void) {
  const hvd_init_options wrong = {sizeof wrong, {NULL, 3}, NULL, 0};
  const hvd_init_options unsized = {0, {NULL, 0}, NULL, 0};
  CHECK_FAILS(hvd_init(&wrong), HVD_INVALID_ARGUMENT, "ranks");
  CHECK_FAILS(hvd_init(&unsized), HVD_INVALID_ARGUMENT, "sizeof(hvd_init_options)");
  CHECK(hvd_init(NULL) == HVD_OK);
  CHECK(hvd_init(NULL) == HVD_OK); /* again */
  CHECK(hvd_is_initialized());
  CHECK(hvd_rank() == 0 && hvd_size() == 1 && hvd_local_rank() == 0);
  CHECK(hvd_local_size() == 1 && hvd_cross_rank() == 0 && hvd_cross_size() == 1);
  CHECK(hvd_is_homogeneous() == 1);
  CHECK(strcmp(hvd_version(), "1.0.0") == 0);
}

static void every_collective_gives_one_rank_its_own_data(void) {
  static const hvd_collective all[] = {HVD_ALLREDUCE, HVD_ALLGATHER, HVD_BROADCAST, HVD_ALLTOALL,
                                       HVD_REDUCESCATTER};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    float values[4] = {1, 2, 3, 4};
    const int64_t shape[2] = {2, 2};
    hvd_request request = HVD_REQUEST_INIT;
    hvd_tensor tensor = tensor_of("alone", values, shape);
    hvd_operation* operation = NULL;
    hvd_output output = {sizeof output};
    request.collective = all[i];
    tensor.dims = 2;
    tensor.output = NULL; /* memory of the operation */
    CHECK(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
    CHECK(hvd_wait(operation, 10) == HVD_OK);
    CHECK(hvd_poll(operation));
    CHECK(hvd_get_output(operation, 0, &output) == HVD_OK);
    CHECK(output.dims == 2 && output.shape[0] == 2 && output.shape[1] == 2);
    CHECK(output.data != values && memcmp(output.data, values, sizeof values) == 0);
    CHECK(output.split_count == (all[i] == HVD_ALLTOALL ? 1 : 0));
    if (all[i] == HVD_ALLTOALL) CHECK(output.received_splits[0] == 2);
    CHECK_FAILS(hvd_get_output(operation, 1, &output), HVD_INVALID_ARGUMENT, "1 tensors");
    hvd_release(operation);
  }
}

static void factors_scale_before_and_after(void) {
  float values[2] = {3, -1};
  const int64_t two = 2;
  hvd_request request = HVD_REQUEST_INIT;
  const hvd_tensor tensor = tensor_of("scaled", values, &two);
  hvd_operation* operation = NULL;
  request.op = HVD_SUM;
  request.prescale = 0.5;
  request.postscale = 8;
  request.flags = HVD_WILL_WAIT;
  CHECK(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  CHECK(values[0] == 12 && values[1] == -4);
  hvd_release(operation);
}

static void barrier_and_join_return(void) {
  hvd_request request = HVD_REQUEST_INIT;
  hvd_operation* operation = NULL;
  float value = 1;
  const int64_t one = 1;
  const hvd_tensor tensor = tensor_of("at a barrier", &value, &one);
  request.collective = HVD_BARRIER;
  CHECK_FAILS(hvd_submit(&request, &tensor, 1, &operation), HVD_INVALID_ARGUMENT, "barrier");
  CHECK(hvd_submit(&request, NULL, 0, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  hvd_release(operation);
  CHECK(hvd_join(&operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  CHECK(hvd_last_joined(operation) == 0);
  hvd_release(operation);
}

struct seen {
  int allocated;
  int done;
  int refuse;
  hvd_code code;
  char message[200];
  float memory[2][4];
};

static void* allocate(void* context, int32_t index, const int64_t* shape, int32_t dims) {
  struct seen* seen = context;
  CHECK(dims == 1 && shape[0] == 4);
  ++seen->allocated;
  return seen->refuse ? NULL : seen->memory[index];
}

static void done(void* context, hvd_operation* operation, hvd_code code, const char* message) {
  struct seen* seen = context;
  hvd_output output = {sizeof output};
  ++seen->done;
  seen->code = code;
  snprintf(seen->message, sizeof seen->message, "%s", message);
  if (code == HVD_OK) {
    CHECK(hvd_get_output(operation, 1, &output) == HVD_OK);
    CHECK(output.data == seen->memory[1]);
  }
}

static void a_group_calls_back_once_and_asks_for_memory_per_tensor(void) {
  float values[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  const int64_t four = 4;
  struct seen seen = {0, 0, 0, HVD_INTERNAL, "", {{0}}};
  hvd_request request = HVD_REQUEST_INIT;
  hvd_tensor tensors[2] = {tensor_of("a", values[0], &four), tensor_of("b", values[1], &four)};
  tensors[0].output = NULL;
  tensors[1].output = NULL;
  request.allocate = allocate;
  request.context = &seen;
  CHECK_FAILS(hvd_submit(&request, tensors, 2, NULL), HVD_INVALID_ARGUMENT, "done");
  request.done = done;
  CHECK(hvd_submit(&request, tensors, 2, NULL) == HVD_OK);
  CHECK(seen.done == 1 && seen.allocated == 2 && seen.code == HVD_OK);
  CHECK(strcmp(seen.message, "") == 0);
  CHECK(memcmp(seen.memory, values, sizeof values) == 0);

  seen.refuse = 1;
  CHECK(hvd_submit(&request, tensors, 2, NULL) == HVD_OK);
  CHECK(seen.done == 2 && seen.code != HVD_OK);
  CHECK(strstr(seen.message, "\"a\"") != NULL);
}

/* ---- Callbacks that start the next operation ---- */

static int joined = -1;

static void joined_last(void* context, hvd_operation* operation, hvd_code code,
                        const char* message) {
  (void)context;
  (void)message;
  joined = code == HVD_OK ? hvd_last_joined(operation) : -1;
}

static void halve_until_one(void* context, hvd_operation* operation, hvd_code code,
                            const char* message) {
  static const int64_t one = 1;
  float* value = context;
  hvd_request request = HVD_REQUEST_INIT;
  const hvd_tensor tensor = tensor_of("halved", value, &one);
  (void)operation;
  (void)message;
  CHECK(code == HVD_OK);
  if (*value > 1) {
    request.prescale = 0.5;
    request.done = halve_until_one;
    request.context = context;
    CHECK(hvd_submit(&request, &tensor, 1, NULL) == HVD_OK);
  } else {
    request.collective = HVD_JOIN;
    request.done = joined_last;
    CHECK(hvd_submit(&request, NULL, 0, NULL) == HVD_OK);
  }
}

static void a_callback_may_start_the_next_operation(void) {
  float value = 1 << 20; /* would overflow the stack if each ran inside the one before */
  halve_until_one(&value, NULL, HVD_OK, "");
  CHECK(value == 1 && joined == 0);
}

static void a_join_is_of_all_ranks_and_without_tensors(void) {
  float value = 1;
  const int64_t one = 1;
  const hvd_tensor tensor = tensor_of("joined", &value, &one);
  hvd_request request = HVD_REQUEST_INIT;
  hvd_operation* operation = NULL;
  request.collective = HVD_JOIN;
  CHECK_FAILS(hvd_submit(&request, &tensor, 1, &operation), HVD_INVALID_ARGUMENT, "no tensors");
  request.process_set = 1;
  CHECK_FAILS(hvd_submit(&request, NULL, 0, &operation), HVD_INVALID_ARGUMENT, "all ranks");
}

/* Operations are used again, also by another collective. */
static void an_operation_leaves_nothing_to_the_next(void) {
  float values[4] = {1, 2, 3, 4};
  const int64_t four = 4;
  const int32_t some = 3;
  hvd_request request = HVD_REQUEST_INIT;
  hvd_tensor tensor = tensor_of("first", values, &four);
  hvd_operation* operation = NULL;
  hvd_output output = {sizeof output};
  request.collective = HVD_ALLTOALL;
  tensor.output = NULL;
  tensor.splits = &some;
  tensor.split_count = 1;
  CHECK(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK && hvd_get_output(operation, 0, &output) == HVD_OK);
  CHECK(output.split_count == 1 && output.dims == 1 && output.shape[0] == 3);
  hvd_release(operation);

  tensor = tensor_of("next", values, &four);
  request.collective = HVD_ALLREDUCE;
  CHECK(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK && hvd_get_output(operation, 0, &output) == HVD_OK);
  CHECK(output.data == values && output.split_count == 0);
  CHECK(output.dims == 1 && output.shape[0] == 4);
  hvd_release(operation);
}

/* The library names operations without a name, and uses these names in its messages. */
static void operations_without_a_name_are_numbered(void) {
  float values[2] = {1, 2};
  const int64_t one = 1;
  const int64_t negative = -1;
  hvd_request request = HVD_REQUEST_INIT;
  hvd_tensor tensors[2] = {tensor_of(NULL, &values[0], &one), tensor_of("", &values[1], &one)};
  hvd_operation* operation = NULL;
  CHECK(hvd_submit(&request, tensors, 1, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  hvd_release(operation);
  CHECK(hvd_submit(&request, tensors, 2, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  hvd_release(operation);
  tensors[1].name = "named";
  CHECK_FAILS(hvd_submit(&request, tensors, 2, &operation), HVD_INVALID_ARGUMENT, "\"named\"");
  tensors[0].shape = &negative;
  CHECK_FAILS(hvd_submit(&request, tensors, 1, &operation), HVD_INVALID_ARGUMENT,
              "\"allreduce.noname\"");
  request.label = "loss";
  CHECK_FAILS(hvd_submit(&request, tensors, 1, &operation), HVD_INVALID_ARGUMENT,
              "\"loss.noname\"");
}

static void dtypes_have_sizes(void) {
  CHECK(hvd_dtype_size(HVD_BOOL) == 1 && hvd_dtype_size(HVD_BFLOAT16) == 2);
  CHECK(hvd_dtype_size(HVD_FLOAT32) == 4 && hvd_dtype_size(HVD_UINT64) == 8);
  CHECK(hvd_dtype_size((hvd_dtype)13) == 0 && hvd_dtype_size((hvd_dtype)15) == 0);
}

static void wrong_arguments_fail_at_once(void) {
  float values[4] = {0};
  const int64_t four = 4;
  const int64_t negative = -1;
  const int32_t splits[2] = {2, 2};
  hvd_operation* operation = NULL;
  hvd_output output = {0};
  for (int wrong = 0; wrong < 12; ++wrong) {
    hvd_request request = HVD_REQUEST_INIT;
    hvd_tensor tensor = tensor_of("wrong", values, &four);
    int32_t count = 1;
    switch (wrong) {
      case 0: request.size = 8; break;
      case 1: tensor.size = 8; break;
      case 2: request.collective = (hvd_collective)3; break;
      case 3: request.op = (hvd_reduce_op)6; break;
      case 4: tensor.dtype = (hvd_dtype)13; break;
      case 5: request.collective = (hvd_collective)7; break;
      case 6: tensor.input = NULL; break;
      case 7: tensor.shape = &negative; break;
      case 8: tensor.shape = NULL; break;
      case 9: request.process_set = 7; break;
      case 10:
        request.collective = HVD_ALLTOALL;
        tensor.splits = splits;
        tensor.split_count = 2;
        break;
      default: count = 0; break;
    }
    CHECK(hvd_submit(&request, &tensor, count, &operation) == HVD_INVALID_ARGUMENT);
    CHECK(operation == NULL && strlen(hvd_error()) > 10);
  }
  {
    hvd_request request = HVD_REQUEST_INIT;
    const hvd_tensor tensor = tensor_of("rooted", values, &four);
    request.collective = HVD_BROADCAST;
    request.root = 1;
    CHECK_FAILS(hvd_submit(&request, &tensor, 1, &operation), HVD_INVALID_ARGUMENT, "root rank 1");
    request.root = 0;
    CHECK(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
    CHECK_FAILS(hvd_get_output(operation, 0, &output), HVD_INVALID_ARGUMENT, "sizeof(hvd_output)");
    hvd_release(operation);
    hvd_release(NULL);
  }
}

/* ---- Structures of programs that were built with another version of hvd.h ---- */

struct later_tensor {
  hvd_tensor tensor;
  double added;
};
struct later_request {
  hvd_request request;
  double added;
};

static void what_is_new_in_a_later_version_has_to_be_zero(void) {
  struct later_tensor tensors[2];
  struct later_request request = {HVD_REQUEST_INIT, 0};
  float values[2] = {1, 2};
  const int64_t one = 1;
  hvd_operation* operation = NULL;
  memset(tensors, 0, sizeof tensors);
  tensors[0].tensor = tensor_of("x", &values[0], &one);
  tensors[1].tensor = tensor_of("y", &values[1], &one);
  tensors[0].tensor.size = sizeof(struct later_tensor);
  tensors[1].tensor.size = sizeof(struct later_tensor);
  request.request.size = sizeof request;
  request.request.postscale = 3;
  CHECK(hvd_submit(&request.request, &tensors[0].tensor, 2, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  CHECK(values[0] == 3 && values[1] == 6);
  hvd_release(operation);

  tensors[1].added = 1;
  CHECK_FAILS(hvd_submit(&request.request, &tensors[0].tensor, 2, &operation), HVD_INVALID_ARGUMENT,
              "hvd_tensor.size");
  CHECK(strstr(hvd_error(), hvd_version()) != NULL && operation == NULL);
  tensors[1].added = 0;
  tensors[1].tensor.size = sizeof(hvd_tensor);
  CHECK_FAILS(hvd_submit(&request.request, &tensors[0].tensor, 2, &operation), HVD_INVALID_ARGUMENT,
              "one tensor of an operation");
  request.added = 1;
  CHECK_FAILS(hvd_submit(&request.request, &tensors[0].tensor, 1, &operation), HVD_INVALID_ARGUMENT,
              "hvd_request.size");
  CHECK(values[0] == 3 && values[1] == 6);
}

static void a_later_version_of_an_output_is_zero_where_nothing_is_known(void) {
  struct {
    hvd_output output;
    void* added;
    char after[8];
  } later;
  float value = 1;
  const int64_t one = 1;
  const hvd_request request = HVD_REQUEST_INIT;
  const hvd_tensor tensor = tensor_of("later", &value, &one);
  hvd_operation* operation = NULL;
  CHECK(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  memset(&later, 0xff, sizeof later);
  later.output.size = sizeof(hvd_output) + sizeof(void*);
  CHECK(hvd_get_output(operation, 0, &later.output) == HVD_OK);
  CHECK(later.output.size == sizeof(hvd_output) + sizeof(void*));
  CHECK(later.output.data == &value && later.added == NULL);
  CHECK(memcmp(later.after, "\xff\xff\xff\xff\xff\xff\xff\xff", 8) == 0);
  hvd_release(operation);
}

/* A size that no version has means that the structure was not initialized. */
static void sizes_of_no_version_are_refused(void) {
  static const size_t wrong[] = {0, 8, 1 << 20, (size_t)-1};
  float value = 1;
  const int64_t one = 1;
  hvd_operation* done_operation = NULL;
  const hvd_request request = HVD_REQUEST_INIT;
  const hvd_tensor tensor = tensor_of("sized", &value, &one);
  CHECK(hvd_submit(&request, &tensor, 1, &done_operation) == HVD_OK);
  CHECK(hvd_wait(done_operation, -1) == HVD_OK);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    hvd_request wrong_request = HVD_REQUEST_INIT;
    hvd_tensor wrong_tensor = tensor;
    hvd_output output = {0};
    hvd_operation* operation = NULL;
    wrong_request.size = wrong[i];
    CHECK_FAILS(hvd_submit(&wrong_request, &tensor, 1, &operation), HVD_INVALID_ARGUMENT,
                "sizeof(hvd_request)");
    wrong_tensor.size = wrong[i];
    CHECK_FAILS(hvd_submit(&request, &wrong_tensor, 1, &operation), HVD_INVALID_ARGUMENT,
                "sizeof(hvd_tensor)");
    output.size = wrong[i];
    CHECK_FAILS(hvd_get_output(done_operation, 0, &output), HVD_INVALID_ARGUMENT,
                "sizeof(hvd_output)");
  }
  hvd_release(done_operation);
}

static void process_sets_are_listed_and_refused(void) {
  const int32_t rank = 0;
  int32_t ids[4] = {-1, -1, -1, -1};
  int32_t count = 0;
  int removed = 1;
  CHECK(hvd_process_sets(ids, 4, &count) == HVD_OK);
  CHECK(count == 1 && ids[0] == HVD_GLOBAL_SET && ids[1] == -1);
  CHECK(hvd_process_set_ranks(HVD_GLOBAL_SET, ids, 0, &count) == HVD_OK);
  CHECK(count == 1);
  CHECK_FAILS(hvd_process_set_ranks(5, ids, 4, &count), HVD_INVALID_ARGUMENT, "process set 5");
  CHECK_FAILS(hvd_add_process_set((hvd_rank_list){&rank, 1}, ids), HVD_PRECONDITION,
              "HOROVOD_DYNAMIC_PROCESS_SETS");
  hvd_shutdown();
  setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1", 1);
  CHECK(hvd_init(NULL) == HVD_OK);
  CHECK_FAILS(hvd_add_process_set((hvd_rank_list){&rank, 1}, ids), HVD_ALREADY_EXISTS, "exists");
  CHECK(hvd_remove_process_set(HVD_GLOBAL_SET, &removed) == HVD_OK && !removed);
  CHECK(hvd_remove_process_set(3, &removed) == HVD_OK && !removed);
}

static void a_timeline_is_written_on_demand(void) {
  char path[] = "/tmp/hvd_test_timeline.XXXXXX";
  char begin = 0;
  float value = 1;
  const int64_t one = 1;
  const hvd_request request = HVD_REQUEST_INIT;
  const hvd_tensor tensor = tensor_of("traced", &value, &one);
  hvd_operation* operation = NULL;
  FILE* file = NULL;
  CHECK_FAILS(hvd_start_timeline("trace.json", 0), HVD_PRECONDITION, "HOROVOD_TIMELINE=DYNAMIC");
  hvd_shutdown();
  setenv("HOROVOD_TIMELINE", "DYNAMIC", 1);
  CHECK(hvd_init(NULL) == HVD_OK);
  CHECK(close(mkstemp(path)) == 0);
  CHECK_FAILS(hvd_start_timeline(NULL, 0), HVD_INVALID_ARGUMENT, "path");
  CHECK(hvd_start_timeline(path, 1) == HVD_OK);
  CHECK(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
  hvd_release(operation);
  CHECK(hvd_stop_timeline() == HVD_OK);
  file = fopen(path, "r");
  CHECK(file != NULL && fread(&begin, 1, 1, file) == 1 && begin == '[');
  fclose(file);
  remove(path);
}

static void what_is_held_over_a_shutdown_stays_readable(void) {
  float value = 5;
  const int64_t one = 1;
  const hvd_request request = HVD_REQUEST_INIT;
  const hvd_tensor tensor = tensor_of("held", &value, &one);
  hvd_output output = {sizeof output};
  hvd_operation* operation = NULL;
  CHECK(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
  hvd_shutdown();
  CHECK(!hvd_is_initialized() && hvd_rank() == -1);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  CHECK(hvd_get_output(operation, 0, &output) == HVD_OK && output.data == &value);
  hvd_release(operation);
  CHECK(hvd_init(NULL) == HVD_OK && hvd_size() == 1);
  hvd_shutdown();
  hvd_shutdown();
}

/* ---- Values of the rendezvous server ---- */

static void a_store_hands_values_from_one_client_to_another(void) {
  char address[64];
  char secret[HVD_SECRET_TEXT];
  char other[HVD_SECRET_TEXT];
  const void* value = NULL;
  size_t bytes = 0;
  hvd_store* store = NULL;
  hvd_store_client* one = NULL;
  hvd_store_client* two = NULL;
  hvd_make_secret(secret);
  hvd_make_secret(other);
  CHECK(hvd_store_start(secret, "127.0.0.1", 0, &store) == HVD_OK);
  snprintf(address, sizeof address, "127.0.0.1:%d", hvd_store_port(store));
  CHECK_FAILS(hvd_store_connect(address, other, 0, 5, &one), HVD_UNAUTHENTICATED, address);
  CHECK_FAILS(hvd_store_connect(address, "short", 0, 5, &one), HVD_INVALID_ARGUMENT, "base64");
  CHECK(one == NULL);
  CHECK(hvd_store_connect(address, secret, 0, 5, &one) == HVD_OK);
  CHECK(hvd_store_connect(address, secret, 0, 5, &two) == HVD_OK);
  CHECK_FAILS(hvd_store_get(two, "run/result", 0.01, &value, &bytes), HVD_TIMEOUT, "run/result");
  CHECK(hvd_store_set(one, "run/result", "42", 3) == HVD_OK);
  CHECK(hvd_store_get(two, "run/result", 5, &value, &bytes) == HVD_OK);
  CHECK(bytes == 3 && memcmp(value, "42", 3) == 0);
  CHECK(hvd_store_set(one, "run/nothing", NULL, 0) == HVD_OK);
  CHECK(hvd_store_get(two, "run/nothing", 5, &value, &bytes) == HVD_OK && bytes == 0);
  int64_t sum = 0;
  CHECK(hvd_store_add(one, "run/count", 1, &sum) == HVD_OK && sum == 1);
  CHECK(hvd_store_add(two, "run/count", 2, &sum) == HVD_OK && sum == 3);
  CHECK(hvd_store_add(one, "run/result", 1, &sum) != HVD_OK && sum == 3);
  CHECK(hvd_store_delete(two, "run/result") == HVD_OK);
  CHECK(hvd_store_delete(two, "run/result") == HVD_OK);
  CHECK(hvd_store_get(one, "run/result", 0.01, &value, &bytes) == HVD_TIMEOUT);
  hvd_store_stop(store);
  CHECK(hvd_store_set(one, "run/result", "42", 3) == HVD_PEER_LOST);
  hvd_store_disconnect(one);
  hvd_store_disconnect(two);
  hvd_store_disconnect(NULL);
}

static void a_wait_for_others_can_be_interrupted(void) {
  char address[64];
  char secret[HVD_SECRET_TEXT];
  hvd_store* store = NULL;
  hvd_store_client* client = NULL;
  const void* value = NULL;
  size_t bytes = 0;
  int64_t sum = 0;
  int questions = 0;
  hvd_make_secret(secret);
  CHECK(hvd_store_start(secret, "127.0.0.1", 0, &store) == HVD_OK);
  snprintf(address, sizeof address, "127.0.0.1:%d", hvd_store_port(store));
  hvd_set_interrupt(wants_to_stop, &questions);

  setenv("HOROVOD_SIZE", "2", 1);
  setenv("HOROVOD_RANK", "0", 1);
  setenv("HOROVOD_RENDEZVOUS", address, 1);
  setenv("_HOROVOD_SECRET_KEY", secret, 1);
  setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", "1000", 1);
  CHECK_FAILS(hvd_init(NULL), HVD_INTERRUPTED, "interrupted");
  CHECK(questions == 3 && !hvd_is_initialized());

  questions = 0;
  CHECK_FAILS(hvd_store_connect("127.0.0.1:9", secret, 0, 1000, &client), HVD_INTERRUPTED,
              "interrupted");
  CHECK(client == NULL);
  questions = -1000;
  CHECK(hvd_store_connect(address, secret, 0, 1000, &client) == HVD_OK);
  questions = 0;
  CHECK_FAILS(hvd_store_get(client, "missing", 1000, &value, &bytes), HVD_INTERRUPTED,
              "interrupted");
  hvd_set_interrupt(NULL, NULL);
  CHECK(hvd_store_add(client, "number", 7, &sum) == HVD_OK && sum == 7);
  hvd_store_disconnect(client);
  hvd_store_stop(store);
  forget_settings();
}

int main(void) {
  forget_settings();
  nothing_works_without_a_job();
  a_failed_start_says_what_is_missing();
  a_wait_for_others_can_be_interrupted();
  start();
  every_collective_gives_one_rank_its_own_data();
  factors_scale_before_and_after();
  barrier_and_join_return();
  a_group_calls_back_once_and_asks_for_memory_per_tensor();
  a_callback_may_start_the_next_operation();
  a_join_is_of_all_ranks_and_without_tensors();
  an_operation_leaves_nothing_to_the_next();
  operations_without_a_name_are_numbered();
  dtypes_have_sizes();
  wrong_arguments_fail_at_once();
  what_is_new_in_a_later_version_has_to_be_zero();
  a_later_version_of_an_output_is_zero_where_nothing_is_known();
  sizes_of_no_version_are_refused();
  process_sets_are_listed_and_refused();
  a_timeline_is_written_on_demand();
  what_is_held_over_a_shutdown_stays_readable();
  a_store_hands_values_from_one_client_to_another();
  return 0;
}
