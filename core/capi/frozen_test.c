/* SPDX-License-Identifier: Apache-2.0 */
/* A program that was built with the first version of hvd.h, run with the present library. Every
 * structure is filled with ones before its fields are set, as an uninitialized one may be: bytes
 * between and after the fields of the first version mean nothing, so no later field may lie there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/testing/frozen/hvd_1.h"

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "%s:%d: %s is not so; hvd_error(): %s\n", __FILE__, __LINE__, #condition, \
              hvd_error());                                                                     \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)

/* The library must not write behind a structure of the program. */
#define GUARDED(type) \
  struct {            \
    type value;       \
    char after[64];   \
  }
#define FILL(guarded) memset(&(guarded), 0xff, sizeof(guarded))
#define CHECK_UNTOUCHED(guarded)                         \
  do {                                                   \
    for (size_t i = 0; i < sizeof(guarded).after; ++i) { \
      CHECK((unsigned char)(guarded).after[i] == 0xff);  \
    }                                                    \
  } while (0)

static void start(void) {
  const int32_t rank = 0;
  GUARDED(hvd_init_options) options;
  FILL(options);
  options.value.size = sizeof(hvd_init_options);
  options.value.ranks.ranks = &rank;
  options.value.ranks.count = 1;
  options.value.process_sets = NULL;
  options.value.process_set_count = 0;
  CHECK(hvd_init(&options.value) == HVD_OK);
  CHECK(hvd_rank() == 0 && hvd_size() == 1);
}

static hvd_request request_of(hvd_collective collective) {
  const hvd_request initial = HVD_REQUEST_INIT;
  hvd_request request;
  memset(&request, 0xff, sizeof request);
  request.size = initial.size;
  request.collective = collective;
  request.op = HVD_SUM;
  request.root = 0;
  request.prescale = initial.prescale;
  request.postscale = 2;
  request.process_set = HVD_GLOBAL_SET;
  request.flags = 0;
  request.allocate = NULL;
  request.done = NULL;
  request.context = NULL;
  return request;
}

static void fill_tensor(hvd_tensor* tensor, const char* name, float* values, const int64_t* count) {
  memset(tensor, 0xff, sizeof *tensor);
  tensor->size = sizeof *tensor;
  tensor->name = name;
  tensor->input = values;
  tensor->output = values;
  tensor->shape = count;
  tensor->dims = 1;
  tensor->dtype = HVD_FLOAT32;
  tensor->splits = NULL;
  tensor->split_count = 0;
}

/* The distance between tensors is the size of the first version. */
static void a_group_is_reduced(void) {
  float values[3][2] = {{1, 2}, {3, 4}, {5, 6}};
  const int64_t two = 2;
  const char* const names[3] = {"a", "b", "c"};
  const hvd_request request = request_of(HVD_ALLREDUCE);
  hvd_tensor tensors[3];
  hvd_operation* operation = NULL;
  for (int i = 0; i < 3; ++i) fill_tensor(&tensors[i], names[i], values[i], &two);
  CHECK(hvd_submit(&request, tensors, 3, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  for (int i = 0; i < 3; ++i) {
    CHECK(values[i][0] == (float)(4 * i + 2) && values[i][1] == (float)(4 * i + 4));
  }
  hvd_release(operation);
}

static void an_output_is_written_within_its_size(void) {
  float values[2] = {1, 2};
  const int64_t two = 2;
  const int32_t one = 1;
  const hvd_request request = request_of(HVD_ALLTOALL);
  hvd_tensor tensor;
  hvd_operation* operation = NULL;
  GUARDED(hvd_output) output;
  fill_tensor(&tensor, "exchanged", values, &two);
  tensor.output = NULL;
  tensor.splits = &one;
  tensor.split_count = 1;
  CHECK(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
  CHECK(hvd_wait(operation, -1) == HVD_OK);
  FILL(output);
  output.value.size = sizeof(hvd_output);
  CHECK(hvd_get_output(operation, 0, &output.value) == HVD_OK);
  CHECK(output.value.size == sizeof(hvd_output));
  CHECK(*(const float*)output.value.data == 1);
  CHECK(output.value.dims == 1 && output.value.shape[0] == 1);
  CHECK(output.value.split_count == 1 && output.value.received_splits[0] == 1);
  CHECK_UNTOUCHED(output);
  hvd_release(operation);
}

int main(void) {
  start();
  a_group_is_reduced();
  an_output_is_written_within_its_size();
  hvd_shutdown();
  return 0;
}
