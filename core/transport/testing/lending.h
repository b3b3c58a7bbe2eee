// SPDX-License-Identifier: Apache-2.0
// Finds out who changes memory too early that was handed to Transport::send. Whether that does harm
// depends on timing, so that tests of results rarely see it; this tells for certain, because it
// follows who may know of what, not what happened to be quick.
//
// Ranks have to be threads of one process: what they know travels through a ledger that they share.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "transport/transport.h"

namespace hvd::testing {

// For each stream from rank a to rank b, at a * ranks + b: how many of its bytes b is known to
// have.
using Knowledge = std::vector<uint64_t>;

// What each sender knew when it sent, kept until the bytes have been received.
class LendingLedger {
 public:
  explicit LendingLedger(int ranks) : streams_(static_cast<size_t>(ranks) * ranks) {}

  void note_sent(size_t stream, size_t bytes, const Knowledge& known) HVD_EXCLUDES(mutex_);
  // Adds what the sender of the next `bytes` bytes knew to `known`.
  void note_received(size_t stream, size_t bytes, Knowledge& known) HVD_EXCLUDES(mutex_);

 private:
  struct Message {
    size_t bytes;
    Knowledge known;
  };
  Mutex mutex_;
  std::vector<std::deque<Message>> streams_ HVD_GUARDED_BY(mutex_);
};

// Around any transport. Every call fails with kInternal, and a message that names the ranks, once
// memory has changed that was sent but neither flushed nor known to have arrived.
class LendingTransport final : public Transport {
 public:
  LendingTransport(std::unique_ptr<Transport> inner, std::shared_ptr<LendingLedger> ledger);

  Status send(int to, ConstBytes out, Deadline deadline) override;
  Status recv(int from, Bytes in, Deadline deadline) override;
  Status recv_pieces(int from, size_t size, size_t unit, Consume consume,
                     Deadline deadline) override;
  Status flush(Deadline deadline) override;
  Arena* arena() override { return inner_->arena(); }
  bool hosts_share_memory() const override { return inner_->hosts_share_memory(); }
  void abort(const Status& reason) override { inner_->abort(reason); }

 private:
  struct Loan {
    int to;
    uint64_t end;  // of the bytes in their stream
    ConstBytes lent;
    std::vector<std::byte> copy;
  };

  size_t stream(int from, int to) const { return static_cast<size_t>(from) * size() + to; }
  void watch(int to, ConstBytes lent);
  Status check_loans() const;
  // Bytes have come: ends the loans that the news of them proves to be over.
  void note_received(int from, size_t bytes);

  const std::unique_ptr<Transport> inner_;
  const std::shared_ptr<LendingLedger> ledger_;
  Knowledge known_;
  std::vector<uint64_t> sent_;  // by receiver
  std::vector<Loan> loans_;
};

}  // namespace hvd::testing
