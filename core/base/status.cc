// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace hvd {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "kOk";
    case StatusCode::kInvalidArgument: return "kInvalidArgument";
    case StatusCode::kPrecondition: return "kPrecondition";
    case StatusCode::kPeerLost: return "kPeerLost";
    case StatusCode::kTimeout: return "kTimeout";
    case StatusCode::kAborted: return "kAborted";
    case StatusCode::kUnauthenticated: return "kUnauthenticated";
    case StatusCode::kNotFound: return "kNotFound";
    case StatusCode::kUnavailable: return "kUnavailable";
    case StatusCode::kIo: return "kIo";
    case StatusCode::kInternal: return "kInternal";
    case StatusCode::kAlreadyExists: return "kAlreadyExists";
  }
  return "unknown status code";
}

Status::Status(StatusCode code, std::string message)
    : failure_(code == StatusCode::kOk ? nullptr : new Failure(code, -1, std::move(message))) {}

void Status::release() noexcept {
  if (failure_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete failure_;
}

const std::string& Status::message() const {
  static const std::string empty;
  return is_ok() ? empty : failure_->message;
}

Status Status::with_context(std::string_view context) const {
  if (is_ok()) return {};
  return Status(new Failure(failure_->code, failure_->lost_rank,
                            std::string(context) + ": " + failure_->message));
}

std::string Status::to_string() const {
  std::string text(hvd::to_string(code()));
  if (!is_ok()) text += ": " + message();
  return text;
}

Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
Status precondition(std::string message) { return {StatusCode::kPrecondition, std::move(message)}; }
Status timeout_error(std::string message) { return {StatusCode::kTimeout, std::move(message)}; }
Status aborted(std::string message) { return {StatusCode::kAborted, std::move(message)}; }
Status unauthenticated(std::string message) {
  return {StatusCode::kUnauthenticated, std::move(message)};
}
Status not_found(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
Status unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
Status already_exists(std::string message) {
  return Status(StatusCode::kAlreadyExists, std::move(message));
}
Status internal_error(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

Status peer_lost(int rank, std::string_view why) {
  return Status(new Status::Failure(StatusCode::kPeerLost, rank,
                                    "rank " + std::to_string(rank) + ": " + std::string(why)));
}

Status io_error(std::string_view what, int error_number) {
  return {StatusCode::kIo,
          std::string(what) + ": " + std::generic_category().message(error_number)};
}

void check_failed(const char* file, int line, std::string_view message) {
  std::fprintf(stderr, "%s:%d: %.*s\n", file, line, static_cast<int>(message.size()),
               message.data());
  std::abort();
}

}  // namespace hvd
