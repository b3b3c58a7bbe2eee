// SPDX-License-Identifier: Apache-2.0
#include "capi/hvd.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "capi/operation.h"
#include "capi/process.h"
#include "engine/job.h"
#include "net/rendezvous.h"
#include "net/seal.h"
#include "net/secret.h"

using hvd::Engine;
using hvd::Job;
using hvd::Status;
using hvd::StatusCode;

void hvd_operation::end() {
  std::unique_ptr<hvd_operation> mine(this);
  if (tasks.size() != 1) return;
  tasks.front().own_output.reset();
  hvd::Process::current().put_aside(std::move(mine));
}

struct hvd_store {  // NOLINT(readability-identifier-naming)
  std::unique_ptr<hvd::RendezvousServer> server;
};

struct hvd_store_client {  // NOLINT(readability-identifier-naming)
  std::unique_ptr<hvd::RendezvousClient> client;
  hvd::ByteBuffer value;  // of the last hvd_store_get
};

namespace {

// Errors -----------------------------------------------------------------------------------------

static_assert(static_cast<int>(hvd::kLastStatusCode) == HVD_ALREADY_EXISTS);
static_assert(static_cast<int>(StatusCode::kPeerLost) == HVD_PEER_LOST);
static_assert(static_cast<int>(StatusCode::kInternal) == HVD_INTERNAL);

// The text of hvd_error(): error_literal, or error_text if error_literal is null. A literal needs
// no memory.
thread_local std::string error_text;
thread_local const char* error_literal = "";

hvd_code fail_with(hvd_code code, const char* literal) {
  error_literal = literal;
  return code;
}

hvd_code fail(hvd_code code, std::string_view text) {
  try {
    error_text = text;
    error_literal = nullptr;
  } catch (const std::bad_alloc&) {
    error_literal = "there was no memory for the text of this error";
  }
  return code;
}

hvd_code to_code(const Status& status) {
  if (status.is_ok()) return HVD_OK;
  return fail(static_cast<hvd_code>(status.code()), status.message());
}

hvd_code no_job() {
  return fail_with(HVD_NOT_INITIALIZED, "Horovod has not been initialized; call hvd_init first");
}

// No exception leaves the library. Those that arrive here mean that memory or threads are
// exhausted.
template <typename Body>
hvd_code guarded(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail_with(HVD_UNAVAILABLE, "there is no memory left");
  } catch (const std::system_error& error) {
    return fail(HVD_UNAVAILABLE, error.what());
  } catch (const std::exception& error) {
    return fail(HVD_INTERNAL, error.what());
  }
}

// The function of hvd_set_interrupt.
thread_local hvd_interrupted interrupted_by = nullptr;
thread_local void* interrupted_context = nullptr;

// For calls whose waits hvd_set_interrupt can end. Not for calls that may run the engine while they
// wait: an operation must not fail because one caller was interrupted.
template <typename Body>
hvd_code interruptible(Body body) {
  return guarded([&] {
    const hvd::Interrupt interrupt(interrupted_by, interrupted_context);
    const hvd_code code = body();
    return interrupt.was_raised() ? fail_with(HVD_INTERRUPTED, "the wait was interrupted") : code;
  });
}

// Calls `body` with the job, or returns HVD_NOT_INITIALIZED.
template <typename Body>
hvd_code with_job(Body body) {
  return guarded([&] {
    const std::shared_ptr<Job> job = hvd::Process::current().job();
    return job == nullptr ? no_job() : body(*job);
  });
}

// Arguments --------------------------------------------------------------------------------------

// Structures begin with their size. A program that was built with an earlier header passes fewer
// bytes than this library has, and the other fields keep their defaults. A program that was built
// with a later header passes more bytes.

// The size of each structure in the first version (testing/frozen/hvd_1.h), which is the smallest
// that is accepted.
template <typename Struct>
constexpr size_t kFirstVersion = 0;
template <>
constexpr size_t kFirstVersion<hvd_init_options> = offsetof(hvd_init_options, process_set_count) +
                                                   sizeof(int32_t);
template <>
constexpr size_t kFirstVersion<hvd_tensor> = offsetof(hvd_tensor, split_count) + sizeof(int32_t);
template <>
constexpr size_t kFirstVersion<hvd_request> = offsetof(hvd_request, context) + sizeof(void*);
template <>
constexpr size_t kFirstVersion<hvd_output> = offsetof(hvd_output, split_count) + sizeof(int32_t);

// A larger size means that the program has not initialized the structure.
constexpr size_t kLargestStruct = 4096;

template <typename Struct>
Status check_size(std::string_view type, size_t given) {
  if (given >= kFirstVersion<Struct> && given <= kLargestStruct) return Status::ok();
  return hvd::invalid_argument(fmt::format("{}.size is {}; set it to sizeof({}), which is {} here",
                                           type, given, type, sizeof(Struct)));
}

// Copies the bytes that both sides have over the defaults in `known`. It is an error if a field is
// set that this library does not have: the library could not do what the caller asks for.
template <typename Struct>
Status read(std::string_view type, const void* from, Struct& known) {
  size_t given = 0;
  std::memcpy(&given, from, sizeof(given));
  HVD_TRY(check_size<Struct>(type, given));
  std::memcpy(&known, from, std::min(given, sizeof(known)));
  const auto* bytes = static_cast<const char*>(from);
  if (given <= sizeof(known) ||
      std::all_of(bytes + sizeof(known), bytes + given, [](char byte) { return byte == 0; })) {
    return Status::ok();
  }
  return hvd::invalid_argument(
      fmt::format("{}.size is {}, of which version {} of the library has {}, and a field after "
                  "these is set: use the library that the program was built for, or leave what is "
                  "new in it zero",
                  type, given, HVD_VERSION, sizeof(known)));
}

// Writes as many bytes as the caller's structure has. Fields that this library does not have become
// zero.
template <typename Struct>
Status write(std::string_view type, const Struct& known, void* to) {
  size_t room = 0;
  std::memcpy(&room, to, sizeof(room));
  HVD_TRY(check_size<Struct>(type, room));
  std::memset(to, 0, room);
  std::memcpy(to, &known, std::min(room, sizeof(known)));
  std::memcpy(to, &room, sizeof(room));
  return Status::ok();
}

hvd::Result<std::vector<int>> to_ranks(const hvd_rank_list& list) {
  if (list.count < 0 || (list.count > 0 && list.ranks == nullptr)) {
    return hvd::invalid_argument(
        fmt::format("a list of {} ranks whose pointer is NULL", list.count));
  }
  return std::vector<int>(list.ranks, list.ranks + list.count);
}

hvd::Result<hvd::JobOptions> to_job_options(const hvd_init_options* given) {
  hvd::JobOptions job;
  if (given == nullptr) return job;
  hvd_init_options options = {};
  HVD_TRY(read("hvd_init_options", given, options));
  HVD_TRY_ASSIGN(job.ranks, to_ranks(options.ranks));
  for (int32_t i = 0; i < options.process_set_count; ++i) {
    HVD_TRY_ASSIGN(auto ranks, to_ranks(options.process_sets[i]));
    job.process_sets.push_back(std::move(ranks));
  }
  return job;
}

hvd::Result<hvd::RequestType> to_type(const hvd_request& request) {
  switch (request.collective) {
    case HVD_ALLREDUCE:
      return request.op == HVD_ADASUM ? hvd::RequestType::kAdasum : hvd::RequestType::kAllreduce;
    case HVD_ALLGATHER:
    case HVD_BROADCAST:
    case HVD_ALLTOALL:
    case HVD_BARRIER:
    case HVD_REDUCESCATTER: return static_cast<hvd::RequestType>(request.collective);
    case HVD_JOIN: break;  // a join is an operation without requests
  }
  return hvd::invalid_argument(
      fmt::format("there is no hvd_collective {}", static_cast<int>(request.collective)));
}

bool has_name(const hvd_tensor& tensor) { return tensor.name != nullptr && *tensor.name != 0; }

// The label of operations without a name (hvd_request.label).
std::string_view label_of(const hvd_request& request, int32_t count) {
  if (request.label != nullptr && *request.label != 0) return request.label;
  const bool is_group = count > 1;
  switch (request.collective) {
    case HVD_ALLREDUCE: return is_group ? "grouped_allreduce" : "allreduce";
    case HVD_ALLGATHER: return is_group ? "grouped_allgather" : "allgather";
    case HVD_BROADCAST: return is_group ? "grouped_broadcast" : "broadcast";
    case HVD_ALLTOALL: return is_group ? "grouped_alltoall" : "alltoall";
    case HVD_REDUCESCATTER: return is_group ? "grouped_reducescatter" : "reducescatter";
    case HVD_JOIN:
    case HVD_BARRIER: break;  // they have no tensors
  }
  return "operation";
}

// `label` is used for a tensor without a name.
Status to_task(const hvd_request& request, hvd::RequestType type, const hvd_tensor& tensor,
               std::string_view label, hvd::TensorTask& task) {
  std::string& name = task.request.name;
  if (has_name(tensor)) {
    name = tensor.name;
  } else {
    name.assign(label).append(".noname");
  }
  if (static_cast<unsigned>(tensor.dtype) >= hvd::kDTypeCount) {
    return hvd::invalid_argument(
        fmt::format("\"{}\": there is no hvd_dtype {}", name, static_cast<int>(tensor.dtype)));
  }
  if (tensor.dims < 0 || (tensor.dims > 0 && tensor.shape == nullptr)) {
    return hvd::invalid_argument(
        fmt::format("\"{}\": {} dimensions, but hvd_tensor.shape is NULL", name, tensor.dims));
  }
  if (tensor.splits == nullptr ? tensor.split_count != 0 : tensor.split_count < 0) {
    return hvd::invalid_argument(
        fmt::format("\"{}\": {} splits, but hvd_tensor.splits is NULL", name, tensor.split_count));
  }
  task.request.type = type;
  task.request.dtype = static_cast<hvd::DType>(tensor.dtype);
  // Fields that a collective does not use get the same value on all ranks, so that the ranks do not
  // disagree about them.
  const bool reduces =
      request.collective == HVD_ALLREDUCE || request.collective == HVD_REDUCESCATTER;
  task.request.op = reduces ? static_cast<hvd::ReduceOp>(request.op) : hvd::ReduceOp::kSum;
  task.request.prescale = reduces ? request.prescale : 1.0;
  task.request.postscale = reduces ? request.postscale : 1.0;
  task.request.root = request.collective == HVD_BROADCAST ? request.root : -1;
  task.request.shape.assign(tensor.shape, tensor.shape + tensor.dims);
  task.in = static_cast<const std::byte*>(tensor.input);
  task.out = static_cast<std::byte*>(tensor.output);
  task.splits.assign(tensor.splits, tensor.splits + tensor.split_count);
  task.has_own_shape = false;
  task.received_splits.clear();
  return Status::ok();
}

// The distance between tensors in the array is the size of the caller's hvd_tensor, which may be of
// another version.
Status to_tasks(const hvd_request& request, const hvd_tensor* tensors, int32_t count,
                hvd::Operation& operation) {
  std::vector<hvd::TensorTask>& tasks = operation.tasks;
  operation.is_unnamed = false;
  if (request.collective == HVD_JOIN) {
    if (count != 0) return hvd::invalid_argument("a join has no tensors");
    if (request.process_set != HVD_GLOBAL_SET) {
      return hvd::invalid_argument("a join concerns all ranks, not a process set");
    }
    tasks.clear();
    return Status::ok();
  }
  HVD_TRY_ASSIGN(const hvd::RequestType type, to_type(request));
  if (static_cast<unsigned>(request.op) > HVD_PRODUCT) {
    return hvd::invalid_argument(
        fmt::format("there is no hvd_reduce_op {}", static_cast<int>(request.op)));
  }
  if (type == hvd::RequestType::kBarrier) {
    if (count != 0) return hvd::invalid_argument("a barrier has no tensors");
    tasks.clear();
    tasks.resize(1);
    tasks[0].request.name = "barrier.noname";
    tasks[0].request.type = type;
    tasks[0].request.dtype = hvd::DType::kUint8;
    return Status::ok();
  }
  if (count <= 0 || tensors == nullptr) return hvd::invalid_argument("there is no tensor");
  const size_t stride = tensors->size;
  HVD_TRY(check_size<hvd_tensor>("hvd_tensor", stride));
  tasks.resize(static_cast<size_t>(count));
  const char* at = reinterpret_cast<const char*>(tensors);
  operation.is_unnamed = !has_name(*tensors);
  for (hvd::TensorTask& task : tasks) {
    hvd_tensor tensor = {};
    HVD_TRY(read("hvd_tensor", at, tensor));
    if (tensor.size != stride) {
      return hvd::invalid_argument(fmt::format(
          "hvd_tensor.size is {} in one tensor of an operation and {} in another; set each to "
          "sizeof(hvd_tensor)",
          stride, tensor.size));
    }
    if (has_name(tensor) == operation.is_unnamed) {
      return hvd::invalid_argument(fmt::format(
          "of the tensors of an operation, \"{}\" has a name and another has none; give all of "
          "them names or none",
          has_name(tensor) ? tensor.name : tensors->name));
    }
    HVD_TRY(to_task(request, type, tensor, label_of(request, count), task));
    at += stride;
  }
  return Status::ok();
}

// The callbacks, small enough for std::function to hold without an allocation.
hvd::Operation::Allocate to_allocate(const hvd_request& request) {
  if (request.allocate == nullptr) return nullptr;
  return
      [allocate = request.allocate, context = request.context](int index, const hvd::Shape& shape) {
        return static_cast<std::byte*>(
            allocate(context, index, shape.data(), static_cast<int32_t>(shape.size())));
      };
}

hvd::Operation::Done to_done(const hvd_request& request) {
  if (request.done == nullptr) return nullptr;
  return [done = request.done, context = request.context](const hvd::Operation& operation) {
    // The object itself is not const.
    auto& handle = const_cast<hvd_operation&>(static_cast<const hvd_operation&>(operation));
    const Status& status = operation.status();
    done(context, &handle, static_cast<hvd_code>(status.code()), status.message().c_str());
  };
}

// Submission -------------------------------------------------------------------------------------

// Writes only on a change: most operations are used again with the same job and engine.
template <typename T>
void point_at(std::weak_ptr<T>& pointer, const std::shared_ptr<T>& to) {
  if (pointer.owner_before(to) || to.owner_before(pointer)) pointer = to;
}

// Sets the caller's pointer before any thread can call the callback `done`, which may release the
// operation.
Status start_operation(const std::shared_ptr<Job>& job, int set, hvd::Operation::Ref ref,
                       hvd::SubmitHint hint, hvd_operation** handle) {
  HVD_TRY_ASSIGN(const std::shared_ptr<Engine> engine, job->engine(set));
  auto& operation = static_cast<hvd_operation&>(*ref);
  point_at(operation.job, job);
  point_at(operation.engine, engine);
  if (handle == nullptr) return engine->submit(operation, hint);
  *handle = static_cast<hvd_operation*>(ref.release());
  Status submitted = engine->submit(operation, hint);
  if (!submitted.is_ok()) {
    ref.reset(&operation);
    *handle = nullptr;
  }
  return submitted;
}

// If there is no memory for a submission, the engine ends, because the other ranks would wait for
// this operation.
template <typename Body>
hvd_code guarded_submission(const int32_t& set, Body body) {
  return guarded([&] {
    try {
      return body();
    } catch (...) {
      const std::shared_ptr<Job> job = hvd::Process::current().job();
      if (job == nullptr) throw;
      const auto engine = job->engine(set);
      if (!engine.is_ok()) return to_code(engine.status());
      return to_code((*engine)->end_by_exception());
    }
  });
}

// Calls `body` with the engine that has carried out `operation`, and with the origin of the seal.
template <typename Body>
hvd_code with_sealer(const hvd_operation* operation, Body body) {
  return guarded([&] {
    if (operation->fork_generation.in_child()) {
      return fail_with(HVD_NOT_INITIALIZED, "the operation belongs to the parent of this process");
    }
    if (!operation->is_done() || !operation->status().is_ok() || operation->tasks.empty()) {
      return fail_with(HVD_PRECONDITION,
                       "a seal needs an operation on tensors that is done without failure");
    }
    // In this order, so that the engine is released before the job.
    const std::shared_ptr<Job> job = operation->job.lock();
    const std::shared_ptr<Engine> engine = operation->engine.lock();
    if (job == nullptr || engine == nullptr) {
      return fail_with(HVD_ABORTED, "the job of the operation to seal for has ended");
    }
    return to_code(body(*engine, {operation->tasks.front().request.name, operation->number(), 0}));
  });
}

hvd_code put(const std::vector<int>& numbers, int32_t* out, int32_t room, int32_t* count) {
  const size_t fitting = out == nullptr || room < 0 ? 0 : static_cast<size_t>(room);
  std::copy_n(numbers.begin(), std::min(numbers.size(), fitting), out);
  if (count != nullptr) *count = static_cast<int32_t>(numbers.size());
  return HVD_OK;
}

template <typename T>
int of_assignment(T hvd::RankAssignment::*field) {
  const std::shared_ptr<Job> job = hvd::Process::current().job();
  return job == nullptr ? -1 : static_cast<int>(job->assignment().*field);
}

// An address with or without a port.
hvd::Result<hvd::Endpoint> to_endpoint(const std::string& text) {
  for (const std::string& candidate : {text, text + ":0", "[" + text + "]:0"}) {
    auto endpoint = hvd::Endpoint::parse(candidate);
    if (endpoint.is_ok()) return endpoint;
  }
  return hvd::invalid_argument(fmt::format(
      "\"{}\" is not an address to bind to; examples: \"0.0.0.0\", \"[::1]:7000\"", text));
}

}  // namespace

// ------------------------------------------------------------------------------------------------

const char* hvd_error(void) {
  return error_literal == nullptr ? error_text.c_str() : error_literal;
}
const char* hvd_version(void) { return HVD_VERSION; }

void hvd_set_interrupt(hvd_interrupted interrupted, void* context) {
  interrupted_by = interrupted;
  interrupted_context = context;
}

hvd_code hvd_setting(const char* variable, const char* text, const char** value) {
  thread_local std::string shown;
  *value = "";
  return guarded([&] {
    auto read = text == nullptr ? hvd::setting_value(variable) : hvd::setting_value(variable, text);
    if (!read.is_ok()) return to_code(read.status());
    shown = std::move(read).value();
    *value = shown.c_str();
    return HVD_OK;
  });
}

hvd_code hvd_init(const hvd_init_options* options) {
  return interruptible([&] {
    hvd::Process::current().take_secret();
    const auto job = to_job_options(options);
    return to_code(job.is_ok() ? hvd::Process::current().start(*job) : job.status());
  });
}

void hvd_shutdown(void) {
  (void)guarded([] {
    hvd::Process::current().shutdown();
    return HVD_OK;
  });
}

int hvd_is_initialized(void) { return hvd::Process::current().job() != nullptr ? 1 : 0; }
int hvd_rank(void) { return of_assignment(&hvd::RankAssignment::rank); }
int hvd_size(void) { return of_assignment(&hvd::RankAssignment::size); }
int hvd_local_rank(void) { return of_assignment(&hvd::RankAssignment::local_rank); }
int hvd_local_size(void) { return of_assignment(&hvd::RankAssignment::local_size); }
int hvd_cross_rank(void) { return of_assignment(&hvd::RankAssignment::cross_rank); }
int hvd_cross_size(void) { return of_assignment(&hvd::RankAssignment::cross_size); }
int hvd_is_homogeneous(void) { return of_assignment(&hvd::RankAssignment::homogeneous); }

hvd_code hvd_add_process_set(hvd_rank_list ranks, int32_t* id) {
  return with_job([&](Job& job) {
    const auto list = to_ranks(ranks);
    if (!list.is_ok()) return to_code(list.status());
    const auto added = job.add_process_set(*list);
    if (added.is_ok() && id != nullptr) *id = *added;
    return to_code(added.status());
  });
}

hvd_code hvd_remove_process_set(int32_t id, int* removed) {
  return with_job([&](Job& job) {
    const auto was_there = job.remove_process_set(id);
    if (was_there.is_ok() && removed != nullptr) *removed = *was_there ? 1 : 0;
    return to_code(was_there.status());
  });
}

hvd_code hvd_process_sets(int32_t* ids, int32_t room, int32_t* count) {
  return with_job([&](Job& job) { return put(job.process_sets(), ids, room, count); });
}

hvd_code hvd_process_set_ranks(int32_t id, int32_t* ranks, int32_t room, int32_t* count) {
  return with_job([&](Job& job) {
    const auto found = job.ranks_of(id);
    return found.is_ok() ? put(*found, ranks, room, count) : to_code(found.status());
  });
}

hvd_code hvd_submit(const hvd_request* given, const hvd_tensor* tensors, int32_t count,
                    hvd_operation** handle) {
  if (handle != nullptr) *handle = nullptr;
  int32_t set = HVD_GLOBAL_SET;
  return guarded_submission(set, [&] {
    auto [job, operation] = hvd::Process::current().begin_submission();
    if (job == nullptr) return no_job();
    if (given == nullptr) return fail_with(HVD_INVALID_ARGUMENT, "there is no request");
    hvd_request request = HVD_REQUEST_INIT;
    if (const Status known = read("hvd_request", given, request); !known.is_ok()) {
      return to_code(known);
    }
    set = request.process_set;
    if (handle == nullptr && request.done == nullptr) {
      return fail_with(
          HVD_INVALID_ARGUMENT,
          "`operation` is NULL and there is no `done` callback; one of them is needed");
    }
    if (const Status tasks = to_tasks(request, tensors, count, *operation); !tasks.is_ok()) {
      return to_code(tasks);
    }
    const auto hint =
        (request.flags & HVD_WILL_WAIT) != 0 ? hvd::SubmitHint::kWillWait : hvd::SubmitHint::kNone;
    return to_code(start_operation(
        job, request.process_set,
        operation.release()->begin(to_allocate(request), to_done(request)), hint, handle));
  });
}

size_t hvd_dtype_size(hvd_dtype dtype) {
  // C may pass any number; in C++ such a value of the enumeration is undefined behaviour.
  std::underlying_type_t<hvd_dtype> number = 0;
  static_assert(sizeof(number) == sizeof(dtype));
  std::memcpy(&number, &dtype, sizeof(number));
  return static_cast<unsigned>(number) < hvd::kDTypeCount
             ? hvd::size_of(static_cast<hvd::DType>(number))
             : 0;
}

hvd_code hvd_join(hvd_operation** operation) {
  hvd_request request = HVD_REQUEST_INIT;
  request.collective = HVD_JOIN;
  return hvd_submit(&request, nullptr, 0, operation);
}

int hvd_poll(const hvd_operation* operation) { return operation->is_done() ? 1 : 0; }

hvd_code hvd_wait(hvd_operation* operation, double seconds) {
  return guarded([&] {
    if (operation->fork_generation.in_child()) {
      return fail_with(HVD_NOT_INITIALIZED, "the operation belongs to the parent of this process");
    }
    if (!operation->is_done()) {
      // In this order, so that the engine is released before the job.
      const std::shared_ptr<Job> job = operation->job.lock();
      const std::shared_ptr<Engine> engine = operation->engine.lock();
      const auto deadline = seconds >= 0
                                ? hvd::Deadline::after(std::chrono::duration<double>(seconds))
                                : hvd::Deadline::never();
      if (job != nullptr && engine != nullptr) {
        const Status waited = engine->wait(*operation, deadline);
        if (!waited.is_ok()) return to_code(waited);
      } else if (!operation->is_done()) {
        return fail_with(HVD_ABORTED, "the job that the operation belonged to has ended");
      }
    }
    return to_code(operation->status());
  });
}

int hvd_last_joined(const hvd_operation* operation) { return operation->last_joined(); }

hvd_code hvd_get_output(const hvd_operation* operation, int32_t index, hvd_output* output) {
  return guarded([&] {
    if (const Status sized = check_size<hvd_output>("hvd_output", output->size); !sized.is_ok()) {
      return to_code(sized);
    }
    if (!operation->is_done()) {
      return fail_with(HVD_PRECONDITION, "the operation is not done; hvd_wait for it");
    }
    if (!operation->status().is_ok()) return to_code(operation->status());
    if (index < 0 || static_cast<size_t>(index) >= operation->tasks.size()) {
      return fail(HVD_INVALID_ARGUMENT, fmt::format("the operation has {} tensors, there is no {}",
                                                    operation->tasks.size(), index));
    }
    const hvd::TensorTask& task = operation->tasks[static_cast<size_t>(index)];
    hvd_output known = {};
    known.data = task.out;
    known.shape = task.shape_of_output().data();
    known.dims = static_cast<int32_t>(task.shape_of_output().size());
    known.received_splits = task.received_splits.data();
    known.split_count = static_cast<int32_t>(task.received_splits.size());
    return to_code(write("hvd_output", known, output));
  });
}

void hvd_release(hvd_operation* operation) { const hvd::Operation::Ref last(operation); }

// Sealed bytes -----------------------------------------------------------------------------------

hvd_code hvd_seal(const hvd_operation* operation, void* data, size_t bytes) {
  return with_sealer(operation, [&](const Engine& engine, hvd::SealOrigin origin) {
    origin.rank = engine.job_ranks()[static_cast<size_t>(engine.rank())];
    return engine.sealer()->seal(origin, {static_cast<std::byte*>(data), bytes});
  });
}

hvd_code hvd_check_seal(const hvd_operation* operation, int32_t rank, const void* data,
                        size_t bytes) {
  return with_sealer(operation, [&](const Engine& engine, hvd::SealOrigin origin) {
    origin.rank = rank;
    return engine.sealer()->check(origin, {static_cast<const std::byte*>(data), bytes});
  });
}

// Timeline ---------------------------------------------------------------------------------------

hvd_code hvd_start_timeline(const char* path, int mark_cycles) {
  return with_job([&](Job& job) {
    if (path == nullptr) return fail_with(HVD_INVALID_ARGUMENT, "the timeline needs a path");
    return to_code(job.start_timeline(path, mark_cycles != 0));
  });
}

hvd_code hvd_stop_timeline(void) {
  return with_job([](Job& job) { return to_code(job.stop_timeline()); });
}

// For launchers ----------------------------------------------------------------------------------

void hvd_make_secret(char text[HVD_SECRET_TEXT]) {
  const std::string made = hvd::Secret::generate().to_base64();
  HVD_CHECK(made.size() < HVD_SECRET_TEXT);
  std::memcpy(text, made.c_str(), made.size() + 1);
}

hvd_code hvd_store_start(const char* secret, const char* bind, int tls, hvd_store** store) {
  *store = nullptr;
  return guarded([&] {
    const auto key = hvd::Secret::from_base64(secret == nullptr ? "" : secret);
    if (!key.is_ok()) return to_code(key.status());
    hvd::RendezvousServerOptions options;
    options.tls = tls != 0;
    if (bind != nullptr) {
      const auto endpoint = to_endpoint(bind);
      if (!endpoint.is_ok()) return to_code(endpoint.status());
      options.bind = *endpoint;
    }
    auto server = hvd::RendezvousServer::start(*key, options);
    if (!server.is_ok()) return to_code(server.status());
    *store = new hvd_store{std::move(server).value()};
    return HVD_OK;
  });
}

int hvd_store_port(const hvd_store* store) { return store->server->endpoint().port(); }
void hvd_store_stop(hvd_store* store) { delete store; }

hvd_code hvd_store_connect(const char* address, const char* secret, int tls, double seconds,
                           hvd_store_client** client) {
  *client = nullptr;
  return interruptible([&] {
    const auto key = hvd::Secret::from_base64(secret == nullptr ? "" : secret);
    if (!key.is_ok()) return to_code(key.status());
    auto connected = hvd::RendezvousClient::connect(
        address == nullptr ? "" : address, *key, tls != 0,
        hvd::Deadline::after(std::chrono::duration<double>(seconds)));
    if (!connected.is_ok()) return to_code(connected.status());
    *client = new hvd_store_client{std::move(connected).value(), {}};
    return HVD_OK;
  });
}

hvd_code hvd_store_set(hvd_store_client* client, const char* key, const void* value, size_t bytes) {
  return interruptible([&] {
    return to_code(client->client->set(key, {static_cast<const std::byte*>(value), bytes}));
  });
}

hvd_code hvd_store_get(hvd_store_client* client, const char* key, double seconds,
                       const void** value, size_t* bytes) {
  return interruptible([&] {
    auto got =
        client->client->wait(key, hvd::Deadline::after(std::chrono::duration<double>(seconds)));
    if (!got.is_ok()) return to_code(got.status());
    client->value = std::move(got).value();
    *value = client->value.data();
    *bytes = client->value.size();
    return HVD_OK;
  });
}

hvd_code hvd_store_add(hvd_store_client* client, const char* key, int64_t delta, int64_t* sum) {
  return interruptible([&] {
    const auto added = client->client->add(key, delta);
    if (added.is_ok()) *sum = added.value();
    return to_code(added.status());
  });
}

hvd_code hvd_store_delete(hvd_store_client* client, const char* key) {
  return interruptible([&] { return to_code(client->client->remove(key).status()); });
}

void hvd_store_disconnect(hvd_store_client* client) { delete client; }
