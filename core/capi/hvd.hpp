// SPDX-License-Identifier: Apache-2.0
// Horovod for C++20 programs: a header on top of hvd.h, the C interface of libhvd.
//
//   hvd::init();
//   hvd::broadcast(weights, /*root=*/0);
//   for (const Batch& batch : batches) {
//     std::vector<float> gradients = backward(weights, batch);
//     hvd::allreduce(gradients);  // the average over all ranks, in place
//     step(weights, gradients);
//   }
//
// - Data is any contiguous range whose elements have a dtype: std::span, std::vector, std::array.
// - Failures are exceptions of type hvd::Error. code() is the code of hvd.h; what() describes the
//   failure and the remedy. After HVD_PEER_LOST or HVD_ABORTED, call shutdown() and then init() to
//   start a new job.
// - The library numbers operations that have no name. So all ranks must start the unnamed
//   operations of one kind and process set in the same order (hvd_request.label). Named operations
//   may be started in any order.
// - Functions that end in _async return a Future. The data must stay valid until the operation is
//   done; the destructor of a Future waits for that.
// - Every function may be called from any thread. A Future is used by one thread at a time.
//
// This header is for programs that use the library. The library's own sources have other
// declarations in namespace hvd.
#pragma once

#ifdef HVD_TRY
#error "capi/hvd.hpp is for programs outside of the library; inside, include engine/job.h"
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hvd.h"

namespace hvd {
// An inline namespace, so that no symbol of a program has the name of a symbol in the library.
inline namespace v1 {

class Error : public std::runtime_error {
 public:
  Error(hvd_code code, const std::string& what) : std::runtime_error(what), code_(code) {}
  hvd_code code() const { return code_; }

 private:
  hvd_code code_;
};

enum class Op {
  kAverage = HVD_AVERAGE,
  kSum = HVD_SUM,
  kAdasum = HVD_ADASUM,
  kMin = HVD_MIN,
  kMax = HVD_MAX,
  kProduct = HVD_PRODUCT,
};

// The bits of the 16-bit floats, for which C++20 has no types.
struct half {  // NOLINT(readability-identifier-naming): named like float
  uint16_t bits = 0;
  bool operator==(const half&) const = default;
};
struct bfloat16 {  // NOLINT(readability-identifier-naming)
  uint16_t bits = 0;
  bool operator==(const bfloat16&) const = default;
};

namespace detail {

inline void check(hvd_code code) {
  if (code != HVD_OK) throw Error(code, hvd_error());
}

inline int checked_place(int value) {
  if (value < 0) throw Error(HVD_NOT_INITIALIZED, "call hvd::init() first");
  return value;
}

template <typename T>
constexpr int dtype_number() {
  if constexpr (std::is_same_v<T, bool>) {
    return HVD_BOOL;
  } else if constexpr (std::is_same_v<T, std::byte>) {
    return HVD_UINT8;
  } else if constexpr (std::is_same_v<T, half>) {
    return HVD_FLOAT16;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return HVD_BFLOAT16;
  } else if constexpr (std::is_same_v<T, float>) {
    return HVD_FLOAT32;
  } else if constexpr (std::is_same_v<T, double>) {
    return HVD_FLOAT64;
  } else if constexpr (std::is_integral_v<T>) {
    constexpr bool kSigned = std::is_signed_v<T>;
    if (sizeof(T) == 1) return kSigned ? HVD_INT8 : HVD_UINT8;
    if (sizeof(T) == 2) return kSigned ? HVD_INT16 : HVD_UINT16;
    if (sizeof(T) == 4) return kSigned ? HVD_INT32 : HVD_UINT32;
    return kSigned ? HVD_INT64 : HVD_UINT64;
  } else {
    return -1;
  }
}

template <typename Range>
using ElementOf = std::remove_cv_t<std::ranges::range_value_t<Range>>;

}  // namespace detail

template <typename T>
concept Element = detail::dtype_number<std::remove_cv_t<T>>()
>= 0;
template <Element T>
inline constexpr hvd_dtype kDType =
    static_cast<hvd_dtype>(detail::dtype_number<std::remove_cv_t<T>>());

template <typename Range>
concept Input = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    Element<std::ranges::range_value_t<Range>>;
template <typename Range>
concept Output = Input<Range> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;

// Start and end ----------------------------------------------------------------------------------

struct InitOptions {
  std::vector<int32_t> ranks;                      // the ranks that take part; empty: all
  std::vector<std::vector<int32_t>> process_sets;  // created by init(), with ids 1, 2, …
};

// Joins the job that the HOROVOD_* variables describe and waits for its other ranks. Without these
// variables the process is a job of one rank.
inline void init(const InitOptions& options = {}) {
  std::vector<hvd_rank_list> sets;
  for (const auto& set : options.process_sets) {
    sets.push_back({set.data(), static_cast<int32_t>(set.size())});
  }
  const hvd_init_options all = {sizeof(all),
                                {options.ranks.data(), static_cast<int32_t>(options.ranks.size())},
                                sets.data(),
                                static_cast<int32_t>(sets.size())};
  detail::check(hvd_init(&all));
}
inline void shutdown() { hvd_shutdown(); }
inline bool is_initialized() { return hvd_is_initialized() != 0; }

// Of this process. They throw HVD_NOT_INITIALIZED without a job.
inline int rank() { return detail::checked_place(hvd_rank()); }
inline int size() { return detail::checked_place(hvd_size()); }
inline int local_rank() { return detail::checked_place(hvd_local_rank()); }
inline int local_size() { return detail::checked_place(hvd_local_size()); }
inline int cross_rank() { return detail::checked_place(hvd_cross_rank()); }
inline int cross_size() { return detail::checked_place(hvd_cross_size()); }
inline bool is_homogeneous() { return detail::checked_place(hvd_is_homogeneous()) != 0; }

// A subset of the ranks. add() is collective: every rank of the job calls it, in the same order. So
// is the destruction of a set that add() made.
class ProcessSet {
 public:
  // All ranks.
  ProcessSet() = default;
  // A set that init() created.
  explicit ProcessSet(int32_t id) : id_(id) {}
  // Needs HOROVOD_DYNAMIC_PROCESS_SETS=1.
  static ProcessSet add(const std::vector<int32_t>& ranks) {
    ProcessSet set;
    detail::check(
        hvd_add_process_set({ranks.data(), static_cast<int32_t>(ranks.size())}, &set.id_));
    set.owned_ = true;
    return set;
  }
  ProcessSet(ProcessSet&& other) noexcept
      : id_(other.id_), owned_(std::exchange(other.owned_, false)) {}
  ProcessSet& operator=(ProcessSet&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~ProcessSet() {
    // Fails if the job has ended; there is nothing to remove then.
    if (owned_) (void)hvd_remove_process_set(id_, nullptr);
  }

  int32_t id() const { return id_; }
  // Job ranks of the members, ascending.
  std::vector<int32_t> ranks() const {
    int32_t count = 0;
    detail::check(hvd_process_set_ranks(id_, nullptr, 0, &count));
    std::vector<int32_t> ranks(static_cast<size_t>(count));
    detail::check(hvd_process_set_ranks(id_, ranks.data(), count, &count));
    return ranks;
  }
  int size() const { return static_cast<int>(ranks().size()); }
  // Index of this rank in the set, or -1 if it is not a member.
  int rank() const {
    const std::vector<int32_t> all = ranks();
    const auto found = std::find(all.begin(), all.end(), hvd::rank());
    return found == all.end() ? -1 : static_cast<int>(found - all.begin());
  }
  bool included() const { return rank() >= 0; }

 private:
  int32_t id_ = HVD_GLOBAL_SET;
  bool owned_ = false;
};

// Options of an operation, for example {.name = "loss", .op = hvd::Op::kSum}.
struct Options {
  std::string name = {};
  Op op = Op::kAverage;   // for allreduce and reducescatter
  double prescale = 1.0;  // result = postscale · reduction of (prescale · input)
  double postscale = 1.0;
  int32_t process_set = HVD_GLOBAL_SET;  // the id of a ProcessSet
  size_t row = 1;  // elements that stay together in allgather, alltoall and reducescatter
};

// The result of an alltoall.
template <typename T>
struct Exchanged {
  std::vector<T> values;                 // in the order of the sending ranks
  std::vector<int32_t> received_splits;  // rows from each rank
};

// Futures ----------------------------------------------------------------------------------------

namespace detail {

inline hvd_request request_of(hvd_collective collective, const Options& options) {
  hvd_request request = HVD_REQUEST_INIT;
  request.collective = collective;
  request.op = static_cast<hvd_reduce_op>(options.op);
  request.prescale = options.prescale;
  request.postscale = options.postscale;
  request.process_set = options.process_set;
  return request;
}

inline hvd_output output_of(const hvd_operation* operation) {
  hvd_output output = {sizeof(output), nullptr, nullptr, 0, nullptr, 0};
  check(hvd_get_output(operation, 0, &output));
  return output;
}

template <typename T>
void read_output(const hvd_operation* operation, std::vector<T>& values) {
  const hvd_output output = output_of(operation);
  size_t count = 1;
  for (int32_t i = 0; i < output.dims; ++i) count *= static_cast<size_t>(output.shape[i]);
  const T* data = static_cast<const T*>(output.data);
  values.assign(data, data + count);
}

template <typename T>
void read_output(const hvd_operation* operation, Exchanged<T>& exchanged) {
  read_output(operation, exchanged.values);
  const hvd_output output = output_of(operation);
  exchanged.received_splits.assign(output.received_splits,
                                   output.received_splits + output.split_count);
}

// `last_joined` becomes a rank of the job.
inline void read_output(const hvd_operation* operation, int& last_joined) {
  last_joined = hvd_last_joined(operation);
}

}  // namespace detail

// An operation in flight. get() waits for it and returns the result, or throws; it may be called
// once. wait() only waits. A Future can be moved but not copied.
template <typename Value = void>
class [[nodiscard]] Future {
 public:
  Future() = default;
  // Takes ownership of the operation of hvd_submit or hvd_join.
  explicit Future(hvd_operation* operation) : operation_(operation) {}
  Future(Future&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  Future& operator=(Future&& other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  // Waits, because the caller may free the data of the operation next.
  ~Future() {
    if (valid()) wait();
    hvd_release(operation_);
  }

  // Whether there is an operation: false after get() and after a move.
  bool valid() const { return operation_ != nullptr; }
  bool poll() const { return hvd_poll(operation()) != 0; }
  void wait() const { (void)wait_for(-1); }
  // Waits for at most `seconds` (below 0: until it is done); returns whether it is done.
  bool wait_for(double seconds) const {
    if (!poll()) (void)hvd_wait(operation_, seconds);
    return poll();
  }
  Value get() {
    detail::check(hvd_wait(operation(), -1));
    const Future taken = std::move(*this);
    if constexpr (!std::is_void_v<Value>) {
      Value value{};
      detail::read_output(taken.operation_, value);
      return value;
    }
  }

 private:
  hvd_operation* operation() const {
    if (!valid()) throw Error(HVD_PRECONDITION, "the future has no operation");
    return operation_;
  }

  hvd_operation* operation_ = nullptr;
};

namespace detail {

// The caller of a blocking function works on the operation itself: HVD_WILL_WAIT.
enum class SubmitHint { kNone, kWillWait };

template <typename Value>
Future<Value> start(hvd_request request, std::span<const hvd_tensor> tensors, SubmitHint hint) {
  if (hint == SubmitHint::kWillWait) request.flags |= HVD_WILL_WAIT;
  hvd_operation* operation = nullptr;
  check(hvd_submit(&request, tensors.data(), static_cast<int32_t>(tensors.size()), &operation));
  return Future<Value>(operation);
}

template <typename Value, Input In>
Future<Value> start_one(const hvd_request& request, const In& input, void* output,
                        const Options& options, SubmitHint hint,
                        std::span<const int32_t> splits = {}) {
  const size_t count = std::ranges::size(input);
  if (options.row == 0 || count % options.row != 0) {
    throw Error(HVD_INVALID_ARGUMENT, "\"" + options.name + "\": " + std::to_string(count) +
                                          " elements are no whole number of rows of " +
                                          std::to_string(options.row));
  }
  const int64_t shape[] = {static_cast<int64_t>(count / options.row),
                           static_cast<int64_t>(options.row)};
  const hvd_tensor tensor = {sizeof(tensor),
                             options.name.c_str(),
                             std::ranges::data(input),
                             output,
                             shape,
                             options.row == 1 ? 1 : 2,
                             kDType<std::ranges::range_value_t<In>>,
                             splits.empty() ? nullptr : splits.data(),
                             static_cast<int32_t>(splits.size())};
  return start<Value>(request, {&tensor, 1}, hint);
}

template <Input In>
Future<> allreduce(const In& input, void* output, const Options& options, SubmitHint hint) {
  return start_one<void>(request_of(HVD_ALLREDUCE, options), input, output, options, hint);
}

template <Input In>
Future<> broadcast(const In& input, void* output, int root, const Options& options,
                   SubmitHint hint) {
  hvd_request request = request_of(HVD_BROADCAST, options);
  request.root = root;
  return start_one<void>(request, input, output, options, hint);
}

template <Input In>
Future<std::vector<ElementOf<In>>> gather(hvd_collective collective, const In& input,
                                          const Options& options, SubmitHint hint) {
  return start_one<std::vector<ElementOf<In>>>(request_of(collective, options), input, nullptr,
                                               options, hint);
}

template <Input In>
Future<Exchanged<ElementOf<In>>> alltoall(const In& input, std::span<const int32_t> splits,
                                          const Options& options, SubmitHint hint) {
  return start_one<Exchanged<ElementOf<In>>>(request_of(HVD_ALLTOALL, options), input, nullptr,
                                             options, hint, splits);
}

template <Input In, Output Out>
void check_same(const In& input, const Out& output) {
  static_assert(std::is_same_v<ElementOf<In>, ElementOf<Out>>, "input and output differ in type");
  if (std::ranges::size(input) != std::ranges::size(output)) {
    throw Error(HVD_INVALID_ARGUMENT,
                "the output has " + std::to_string(std::ranges::size(output)) +
                    " elements, the input " + std::to_string(std::ranges::size(input)));
  }
}

template <Output Data>
Future<> allreduce_group(std::span<Data> group, const Options& options, SubmitHint hint) {
  std::vector<std::string> names(group.size());
  std::vector<int64_t> counts;
  std::vector<hvd_tensor> tensors;
  counts.reserve(group.size());
  for (size_t i = 0; i < group.size(); ++i) {
    if (!options.name.empty()) {
      names[i] = options.name + "_" + std::to_string(i + 1) + "of" + std::to_string(group.size());
    }
    counts.push_back(static_cast<int64_t>(std::ranges::size(group[i])));
    void* data = std::ranges::data(group[i]);
    tensors.push_back({sizeof(hvd_tensor), names[i].c_str(), data, data, &counts[i], 1,
                       kDType<std::ranges::range_value_t<Data>>, nullptr, 0});
  }
  hvd_request request = request_of(HVD_ALLREDUCE, options);
  request.label = "grouped_allreduce";
  return start<void>(request, tensors, hint);
}

}  // namespace detail

// Operations -------------------------------------------------------------------------------------

// In place: `data` becomes the average over all ranks, or the reduction by options.op.
template <Output Data>
void allreduce(Data&& data, const Options& options = {}) {
  detail::allreduce(data, std::ranges::data(data), options, detail::SubmitHint::kWillWait).get();
}
template <Output Data>
Future<> allreduce_async(Data&& data, const Options& options = {}) {
  return detail::allreduce(data, std::ranges::data(data), options, detail::SubmitHint::kNone);
}
// From `input` to `output`, which has the same size.
template <Input In, Output Out>
void allreduce(const In& input, Out&& output, const Options& options = {}) {
  detail::check_same(input, output);
  detail::allreduce(input, std::ranges::data(output), options, detail::SubmitHint::kWillWait).get();
}
template <Input In, Output Out>
Future<> allreduce_async(const In& input, Out&& output, const Options& options = {}) {
  detail::check_same(input, output);
  return detail::allreduce(input, std::ranges::data(output), options, detail::SubmitHint::kNone);
}

// Several tensors, in place; they complete together.
template <Output Data>
void grouped_allreduce(std::span<Data> group, const Options& options = {}) {
  detail::allreduce_group(group, options, detail::SubmitHint::kWillWait).get();
}
template <Output Data>
Future<> grouped_allreduce_async(std::span<Data> group, const Options& options = {}) {
  return detail::allreduce_group(group, options, detail::SubmitHint::kNone);
}

// The elements of all ranks, in the order of ranks. The ranks may have different numbers of them.
template <Input In>
std::vector<detail::ElementOf<In>> allgather(const In& input, const Options& options = {}) {
  return detail::gather(HVD_ALLGATHER, input, options, detail::SubmitHint::kWillWait).get();
}
template <Input In>
Future<std::vector<detail::ElementOf<In>>> allgather_async(const In& input,
                                                           const Options& options = {}) {
  return detail::gather(HVD_ALLGATHER, input, options, detail::SubmitHint::kNone);
}

// `data` becomes that of `root`, a rank of the job.
template <Output Data>
void broadcast(Data&& data, int root, const Options& options = {}) {
  detail::broadcast(data, std::ranges::data(data), root, options, detail::SubmitHint::kWillWait)
      .get();
}
template <Output Data>
Future<> broadcast_async(Data&& data, int root, const Options& options = {}) {
  return detail::broadcast(data, std::ranges::data(data), root, options, detail::SubmitHint::kNone);
}

// `splits`: the number of rows for each rank; empty: the same number for all.
template <Input In>
Exchanged<detail::ElementOf<In>> alltoall(const In& input, std::span<const int32_t> splits = {},
                                          const Options& options = {}) {
  return detail::alltoall(input, splits, options, detail::SubmitHint::kWillWait).get();
}
template <Input In>
Future<Exchanged<detail::ElementOf<In>>> alltoall_async(const In& input,
                                                        std::span<const int32_t> splits = {},
                                                        const Options& options = {}) {
  return detail::alltoall(input, splits, options, detail::SubmitHint::kNone);
}

// This rank's rows of the average or of the sum (options.op).
template <Input In>
std::vector<detail::ElementOf<In>> reducescatter(const In& input, const Options& options = {}) {
  return detail::gather(HVD_REDUCESCATTER, input, options, detail::SubmitHint::kWillWait).get();
}
template <Input In>
Future<std::vector<detail::ElementOf<In>>> reducescatter_async(const In& input,
                                                               const Options& options = {}) {
  return detail::gather(HVD_REDUCESCATTER, input, options, detail::SubmitHint::kNone);
}

// Returns once every rank of the set has called it.
inline void barrier(int32_t process_set = HVD_GLOBAL_SET) {
  const Options options = {.process_set = process_set};
  detail::start<void>(detail::request_of(HVD_BARRIER, options), {}, detail::SubmitHint::kWillWait)
      .get();
}

// Declares that this rank has no more data. Until all ranks have joined, it takes part in the
// reductions of the other ranks with values that do not change the result. Returns the rank that
// joined last.
inline int join() {
  hvd_operation* operation = nullptr;
  detail::check(hvd_join(&operation));
  return Future<int>(operation).get();
}

}  // namespace v1
}  // namespace hvd
