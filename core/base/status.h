// SPDX-License-Identifier: Apache-2.0
// Errors are values. The loss of a peer is a normal event (elastic training survives it), it is
// detected on a background thread, and it has to cross a C boundary. Exceptions suit none of these
// three cases.
//
// A function that can fail returns Status, or Result<T> if it also returns a value. HVD_TRY passes
// a failure on to the caller. HVD_CHECK is for bugs of the library and ends the process.
//
// What each code means, which code makes it, and what the Python front ends raise for it
// (python/horovod/_core/errors.cc). HIE is horovod.common.exceptions.HorovodInternalError, which
// elastic training catches. A failure of init() is always a StartError. Every exception has the
// number of the code as its attribute `code`.
//
//   code             | meaning                            | made by                | Python
//   -----------------+------------------------------------+------------------------+-----------
//   kInvalidArgument | an argument or a setting can never | checks of arguments,   | ValueError
//                    | work; a message is malformed       | Config, Decoder        |
//   kPrecondition    | the ranks disagree, or the call    | negotiation,           | HIE, or
//                    | came at the wrong time; the peer   | handshake, process     | ValueError
//                    | has another version or HOROVOD_TLS | sets                   | (*)
//   kPeerLost        | a rank died or closed its          | Stream, heartbeats of  | HIE
//                    | connection; see lost_rank()        | the transport          |
//   kTimeout         | a deadline passed, or the thread   | every wait             | HIE
//                    | was interrupted                    |                        |
//   kAborted         | the job was shut down, here or on  | engine                 | HIE
//                    | another rank, or has failed before |                        |
//   kUnauthenticated | the peer has another secret, or    | handshake, frames,     | HIE
//                    | bytes were changed on the wire     | records, TLS, seals    |
//   kNotFound        | no such key, setting, host or      | rendezvous, Config,    | KeyError
//                    | network interface                  | Resolver, address      |
//   kUnavailable     | this machine lacks memory,         | sockets, shared        | HIE
//                    | threads, descriptors or a          | memory, threads, PMIx  |
//                    | permission                         |                        |
//   kIo              | a system call failed               | io_error()             | HIE
//   kInternal        | a bug of the library               | the core               | HIE
//   kAlreadyExists   | a process set of these ranks       | process sets           | ValueError
//                    | exists                             |                        |
//
//   (*) ValueError where the caller's argument or setting is the reason, as in add_process_set.
//
// The numbers are those of hvd_code (capi/hvd.h), which has two more: HVD_NOT_INITIALIZED
// (NotInitializedError in Python) and HVD_INTERRUPTED (the exception that the signal handler set).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hvd {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,
  kPrecondition,
  kPeerLost,
  kTimeout,
  kAborted,
  kUnauthenticated,
  kNotFound,
  kUnavailable,
  kIo,
  kInternal,
  kAlreadyExists,
};

// For the static_assert in capi/hvd.cc that compares the codes with hvd_code.
inline constexpr StatusCode kLastStatusCode = StatusCode::kAlreadyExists;

// "kPeerLost" for StatusCode::kPeerLost, and so on: for logs and tests.
std::string_view to_string(StatusCode code);

// Success or a failure with a code and a message. The size is one pointer, which is null for
// success, so that returning success is free. Copies share the failure through an atomic reference
// count and never allocate: a failure that was made in time can still be reported when memory has
// run out. Different threads may hold copies of one failure; one object is used by one thread at a
// time.
class [[nodiscard]] Status {
 public:
  static Status ok() { return {}; }

  Status() = default;
  Status(StatusCode code, std::string message);
  Status(const Status& other) noexcept : failure_(other.failure_) {
    if (failure_ != nullptr) failure_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  Status(Status&& other) noexcept : failure_(std::exchange(other.failure_, nullptr)) {}
  Status& operator=(Status other) noexcept {
    std::swap(failure_, other.failure_);
    return *this;
  }
  ~Status() {
    if (failure_ != nullptr) release();
  }

  bool is_ok() const { return failure_ == nullptr; }
  StatusCode code() const { return is_ok() ? StatusCode::kOk : failure_->code; }
  // Names the object and, where there is one, the remedy. Empty for success.
  const std::string& message() const;
  // For kPeerLost: the rank that was lost. -1 if it is not known, and for every other code.
  int lost_rank() const { return is_ok() ? -1 : failure_->lost_rank; }

  // The same failure with `context` and a colon before its message.
  Status with_context(std::string_view context) const;
  // "kPeerLost: rank 3 (host b): connection reset", or "kOk".
  std::string to_string() const;

  friend Status peer_lost(int rank, std::string_view why);

 private:
  struct Failure {
    Failure(StatusCode why, int rank, std::string text)
        : code(why), lost_rank(rank), message(std::move(text)) {}
    const StatusCode code;
    const int lost_rank;
    const std::string message;
    mutable std::atomic<uint32_t> owners{1};
  };
  explicit Status(const Failure* failure) : failure_(failure) {}
  void release() noexcept;

  const Failure* failure_ = nullptr;
};

Status invalid_argument(std::string message);
Status precondition(std::string message);
// Message "rank <rank>: <why>".
Status peer_lost(int rank, std::string_view why);
Status timeout_error(std::string message);
Status aborted(std::string message);
Status unauthenticated(std::string message);
Status not_found(std::string message);
Status unavailable(std::string message);
Status already_exists(std::string message);
Status internal_error(std::string message);
// "<what>: <strerror(error_number)>".
Status io_error(std::string_view what, int error_number);

// Prints file, line and message to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, std::string_view message);

// Either a value or the failure that prevented it. Never both, never none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}           // NOLINT(google-explicit-constructor)
  Result(Status failure) : status_(std::move(failure)) {  // NOLINT(google-explicit-constructor)
    if (status_.is_ok()) check_failed(__FILE__, __LINE__, "Result made from an ok Status");
  }

  bool is_ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Only if is_ok(); otherwise the process ends (check_failed).
  T& value() & { return checked(), *value_; }
  const T& value() const& { return checked(), *value_; }
  T&& value() && { return checked(), std::move(*value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void checked() const {
    if (!value_.has_value()) check_failed(__FILE__, __LINE__, status_.to_string());
  }
  Status status_;
  std::optional<T> value_;
};

}  // namespace hvd

// Returns the failure of `expression` (a Status) from the enclosing function.
#define HVD_TRY(expression)                                                   \
  do {                                                                        \
    if (::hvd::Status hvd_try_status = (expression); !hvd_try_status.is_ok()) \
      return hvd_try_status;                                                  \
  } while (false)

// Evaluates `expression` (a Result): `declaration = its value`, or returns its failure from the
// enclosing function.
#define HVD_TRY_ASSIGN(declaration, expression) \
  HVD_TRY_ASSIGN_IMPL(HVD_CONCAT(hvd_result_, __LINE__), declaration, expression)
#define HVD_TRY_ASSIGN_IMPL(result, declaration, expression) \
  auto result = (expression);                                \
  if (!result.is_ok()) return result.status();               \
  declaration = std::move(result).value()
#define HVD_CONCAT(a, b) HVD_CONCAT_IMPL(a, b)
#define HVD_CONCAT_IMPL(a, b) a##b

// For invariants of the library, in all builds: prints the condition and aborts.
#define HVD_CHECK(condition)                                                          \
  do {                                                                                \
    if (!(condition)) ::hvd::check_failed(__FILE__, __LINE__, "broken: " #condition); \
  } while (false)
