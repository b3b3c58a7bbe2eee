// SPDX-License-Identifier: Apache-2.0
#include "capi/classic.h"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "capi/process.h"

namespace {

static_assert(sizeof(int) == sizeof(int32_t));

int to_classic(hvd_code code) {
  switch (code) {
    case HVD_OK: return 0;
    case HVD_NOT_INITIALIZED: return HOROVOD_ERROR_INIT;
    case HVD_PRECONDITION: return HOROVOD_ERROR_DYNAMIC;
    case HVD_ALREADY_EXISTS: return HOROVOD_ERROR_EXISTING;
    case HVD_INVALID_ARGUMENT:
    case HVD_NOT_FOUND: return HOROVOD_ERROR_UNKNOWN;
    default: return HOROVOD_ERROR_SHUTDOWN;
  }
}

// Fills in the ranks of a set; returns 0 or a code of classic.h.
int get_ranks(int id, std::vector<int>& ranks) {
  int32_t count = 0;
  hvd_code code = hvd_process_set_ranks(id, nullptr, 0, &count);
  if (code == HVD_OK) {
    ranks.resize(static_cast<size_t>(count));
    code = hvd_process_set_ranks(id, ranks.data(), count, &count);
  }
  return to_classic(code);
}

}  // namespace

int horovod_init(const int* ranks, int count, const int* set_ranks, const int* set_sizes,
                 int set_count) {
  std::vector<hvd_rank_list> sets;
  for (int i = 0; i < set_count; ++i) {
    sets.push_back({set_ranks, set_sizes[i]});
    set_ranks += set_sizes[i];
  }
  const hvd_init_options options = {
      sizeof(options), {ranks, std::max(count, 0)}, sets.data(), static_cast<int32_t>(sets.size())};
  return hvd_init(&options) == HVD_OK ? 1 : 0;
}

int horovod_init_multi_comm(void* /*comms*/, int /*count*/, const int* /*set_ranks*/,
                            const int* /*set_sizes*/, int /*set_count*/) {
  return 0;
}

void horovod_shutdown(void) { hvd_shutdown(); }
int horovod_is_initialized(void) { return hvd_is_initialized(); }
int horovod_rank(void) { return hvd_rank(); }
int horovod_size(void) { return hvd_size(); }
int horovod_local_rank(void) { return hvd_local_rank(); }
int horovod_local_size(void) { return hvd_local_size(); }
int horovod_cross_rank(void) { return hvd_cross_rank(); }
int horovod_cross_size(void) { return hvd_cross_size(); }
int horovod_is_homogeneous(void) { return hvd_is_homogeneous(); }

int horovod_mpi_threads_supported(void) {
  return hvd_is_initialized() != 0 ? horovod_mpi_enabled() : HOROVOD_ERROR_INIT;
}
int horovod_mpi_enabled(void) {
  const std::shared_ptr<hvd::Job> job = hvd::Process::current().job();
  return job != nullptr && job->config().started_by_mpi ? 1 : 0;
}
int horovod_mpi_built(void) { return 0; }
int horovod_gloo_enabled(void) { return hvd_is_initialized(); }
int horovod_gloo_built(void) { return 1; }
int horovod_nccl_built(void) { return 0; }
int horovod_ddl_built(void) { return 0; }
int horovod_ccl_built(void) { return 0; }
int horovod_cuda_built(void) { return 0; }
int horovod_rocm_built(void) { return 0; }

int horovod_reduce_op_average(void) { return HVD_AVERAGE; }
int horovod_reduce_op_sum(void) { return HVD_SUM; }
int horovod_reduce_op_adasum(void) { return HVD_ADASUM; }
int horovod_reduce_op_min(void) { return HVD_MIN; }
int horovod_reduce_op_max(void) { return HVD_MAX; }
int horovod_reduce_op_product(void) { return HVD_PRODUCT; }

int horovod_start_timeline(const char* path, int mark_cycles) {
  const hvd_code code = hvd_start_timeline(path, mark_cycles);
  return code == HVD_OK ? 1 : code == HVD_NOT_INITIALIZED ? -1 : -2;
}

int horovod_stop_timeline(void) {
  const hvd_code code = hvd_stop_timeline();
  return code == HVD_OK ? 1 : code == HVD_NOT_INITIALIZED ? -1 : -2;
}

int horovod_add_process_set(const int* ranks, int count) {
  int32_t id = 0;
  const hvd_code code = hvd_add_process_set({ranks, count}, &id);
  return code == HVD_OK ? id : to_classic(code);
}

int horovod_remove_process_set(int id) {
  int removed = 0;
  const hvd_code code = hvd_remove_process_set(id, &removed);
  if (code != HVD_OK) return to_classic(code);
  return removed != 0 ? id : HOROVOD_ERROR_UNKNOWN;
}

int horovod_process_set_rank(int id) {
  std::vector<int> ranks;
  if (const int code = get_ranks(id, ranks); code != 0) return code;
  const auto found = std::find(ranks.begin(), ranks.end(), hvd_rank());
  return found == ranks.end() ? HOROVOD_ERROR_FOREIGN : static_cast<int>(found - ranks.begin());
}

int horovod_process_set_size(int id) {
  std::vector<int> ranks;
  if (const int code = get_ranks(id, ranks); code != 0) return code;
  return static_cast<int>(ranks.size());
}

int horovod_process_set_ranks(int id, int* ranks) {
  std::vector<int> found;
  if (const int code = get_ranks(id, found); code != 0) return code;
  std::copy(found.begin(), found.end(), ranks);
  return 0;
}

int horovod_process_set_included(int id) {
  const int rank = horovod_process_set_rank(id);
  if (rank == HOROVOD_ERROR_FOREIGN) return 0;
  return rank < 0 ? rank : 1;
}

int horovod_number_of_process_sets(void) {
  int32_t count = 0;
  const hvd_code code = hvd_process_sets(nullptr, 0, &count);
  return code == HVD_OK ? count : to_classic(code);
}

int horovod_process_set_ids(int* ids) {
  const int count = horovod_number_of_process_sets();
  return count < 0 ? count : to_classic(hvd_process_sets(ids, count, nullptr));
}

int horovod_comm_process_set(void* /*comm*/) {
  return hvd_is_initialized() != 0 ? HOROVOD_ERROR_UNKNOWN : HOROVOD_ERROR_INIT;
}
