// SPDX-License-Identifier: Apache-2.0
// Errors are values. A lost peer is routine (elastic training survives it), is found on a
// background thread and has to cross a C boundary, and exceptions do all three badly.
//
// A function that can fail returns Status, or Result<T> when it also has something to give back.
// HVD_TRY passes a failure on; HVD_CHECK is for our own bugs and ends the process.
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
  kInvalidArgument,  // what the caller passed can never work
  kPrecondition,     // ranks disagree, or the call came at the wrong time
  kPeerLost,         // a rank died or closed its connection
  kTimeout,          // the deadline passed
  kAborted,          // shut down, or ended because another rank failed
  kUnauthenticated,  // a peer does not know the job secret
  kNotFound,         // no such key, file, host or interface
  kUnavailable,      // this machine cannot do it (no shared memory, no permission, no space)
  kIo,               // the operating system refused
  kInternal,         // a broken promise of our own
  kAlreadyExists,    // what was to be made is there
};

inline constexpr StatusCode kLastStatusCode = StatusCode::kAlreadyExists;

// "kPeerLost" for StatusCode::kPeerLost, and so on: for logs and tests.
std::string_view to_string(StatusCode code);

// One pointer wide and null when all went well, so that success costs nothing to pass around.
// Copies share the failure and never allocate: a failure that was made in time can be reported when
// memory has run out.
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
  // Names the thing and the remedy; empty when all went well.
  const std::string& message() const;
  // For kPeerLost: the rank that was lost, or -1 when it is not known.
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

// Either a value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}           // NOLINT(google-explicit-constructor)
  Result(Status failure) : status_(std::move(failure)) {  // NOLINT(google-explicit-constructor)
    if (status_.is_ok()) check_failed(__FILE__, __LINE__, "Result made from an ok Status");
  }

  bool is_ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Only after is_ok() said yes.
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

// Returns from the enclosing function when `expression` failed.
#define HVD_TRY(expression)                                                   \
  do {                                                                        \
    if (::hvd::Status hvd_try_status = (expression); !hvd_try_status.is_ok()) \
      return hvd_try_status;                                                  \
  } while (false)

// `declaration = value of expression`, or returns from the enclosing function.
#define HVD_TRY_ASSIGN(declaration, expression) \
  HVD_TRY_ASSIGN_IMPL(HVD_CONCAT(hvd_result_, __LINE__), declaration, expression)
#define HVD_TRY_ASSIGN_IMPL(result, declaration, expression) \
  auto result = (expression);                                \
  if (!result.is_ok()) return result.status();               \
  declaration = std::move(result).value()
#define HVD_CONCAT(a, b) HVD_CONCAT_IMPL(a, b)
#define HVD_CONCAT_IMPL(a, b) a##b

#define HVD_CHECK(condition)                                                          \
  do {                                                                                \
    if (!(condition)) ::hvd::check_failed(__FILE__, __LINE__, "broken: " #condition); \
  } while (false)
