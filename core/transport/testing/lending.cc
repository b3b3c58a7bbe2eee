// SPDX-License-Identifier: Apache-2.0
#include "transport/testing/lending.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvd::testing {
namespace {

// Only this many bytes at the two ends of a message are compared. Comparing all of a large message
// for each piece that a ring receives took a minute under tsan.
constexpr size_t kWatched = 1024;

}  // namespace

void LendingLedger::note_sent(size_t stream, size_t bytes, const Knowledge& known) {
  MutexLock lock(mutex_);
  streams_[stream].push_back({bytes, known});
}

void LendingLedger::note_received(size_t stream, size_t bytes, Knowledge& known) {
  MutexLock lock(mutex_);
  while (bytes > 0) {
    HVD_CHECK(!streams_[stream].empty());
    Message& message = streams_[stream].front();
    for (size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], message.known[i]);
    const size_t part = std::min(bytes, message.bytes);
    bytes -= part;
    message.bytes -= part;
    if (message.bytes == 0) streams_[stream].pop_front();
  }
}

LendingTransport::LendingTransport(std::unique_ptr<Transport> inner,
                                   std::shared_ptr<LendingLedger> ledger)
    : Transport(inner->rank(), inner->topology()),
      inner_(std::move(inner)),
      ledger_(std::move(ledger)),
      known_(static_cast<size_t>(size()) * size()),
      sent_(size()) {}

Status LendingTransport::send(int to, ConstBytes out, Deadline deadline) {
  HVD_TRY(check_loans());
  if (!out.empty()) {
    // Before the inner call, since the receiver may have the bytes before that call returns.
    ledger_->note_sent(stream(rank(), to), out.size(), known_);
    sent_[to] += out.size();
    watch(to, out.first(std::min(out.size(), kWatched)));
    if (out.size() > kWatched) watch(to, out.last(std::min(out.size() - kWatched, kWatched)));
  }
  return inner_->send(to, out, deadline);
}

void LendingTransport::watch(int to, ConstBytes lent) {
  loans_.push_back({to, sent_[to], lent, {lent.begin(), lent.end()}});
}

// The loans are checked before the bytes arrive, because these may overwrite lent memory. That is
// correct if the bytes end the loan; otherwise the next call detects it.
Status LendingTransport::recv(int from, Bytes in, Deadline deadline) {
  HVD_TRY(check_loans());
  HVD_TRY(inner_->recv(from, in, deadline));
  note_received(from, in.size());
  return Status::ok();
}

Status LendingTransport::recv_pieces(int from, size_t size, size_t unit, Consume consume,
                                     Deadline deadline) {
  HVD_TRY(check_loans());
  const auto note_and_consume = [&](ConstBytes piece) -> Status {
    HVD_TRY(check_loans());
    note_received(from, piece.size());
    return consume(piece);
  };
  return inner_->recv_pieces(from, size, unit, note_and_consume, deadline);
}

Status LendingTransport::flush(Deadline deadline) {
  HVD_TRY(check_loans());
  HVD_TRY(inner_->flush(deadline));
  loans_.clear();
  return Status::ok();
}

Status LendingTransport::check_loans() const {
  for (const Loan& loan : loans_) {
    if (std::memcmp(loan.lent.data(), loan.copy.data(), loan.copy.size()) == 0) continue;
    return internal_error(
        fmt::format("rank {} changed memory that it had sent to rank {} before a flush, or any "
                    "message that rank {} had received it",
                    rank(), loan.to, loan.to));
  }
  return Status::ok();
}

void LendingTransport::note_received(int from, size_t bytes) {
  ledger_->note_received(stream(from, rank()), bytes, known_);
  known_[stream(from, rank())] += bytes;
  std::erase_if(loans_,
                [this](const Loan& loan) { return known_[stream(rank(), loan.to)] >= loan.end; });
}

}  // namespace hvd::testing
