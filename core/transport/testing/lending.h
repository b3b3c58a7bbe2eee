// SPDX-License-Identifier: Apache-2.0
// Detects code that changes memory too early after Transport::send. Whether such a change does harm
// depends on timing, so tests of results rarely see it. This check does not depend on timing: it
// tracks, with a vector clock, which rank can have proof of the arrival of which bytes.
//
// Ranks must be threads of one process: they share the ledger.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "transport/transport.h"

namespace hvd::testing {

// For each stream from rank a to rank b, at a * ranks + b: the number of its bytes that b is proven
// to have.
using Knowledge = std::vector<uint64_t>;

// The knowledge of each sender at the time of each send, kept until the bytes are received. Safe
// from any thread.
class LendingLedger {
 public:
  explicit LendingLedger(int ranks) : streams_(static_cast<size_t>(ranks) * ranks) {}

  void note_sent(size_t stream, size_t bytes, const Knowledge& known) HVD_EXCLUDES(mutex_);
  // Merges the knowledge of the sender of the next `bytes` bytes into `known`.
  void note_received(size_t stream, size_t bytes, Knowledge& known) HVD_EXCLUDES(mutex_);

 private:
  struct Message {
    size_t bytes;
    Knowledge known;
  };
  Mutex mutex_;
  std::vector<std::deque<Message>> streams_ HVD_GUARDED_BY(mutex_);
};

// A wrapper around any transport. Once memory has changed that was sent but neither flushed nor
// proven to have arrived, every call fails with kInternal and a message that names the ranks.
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
  // Bytes have arrived: ends the loans that they prove to be over.
  void note_received(int from, size_t bytes);

  const std::unique_ptr<Transport> inner_;
  const std::shared_ptr<LendingLedger> ledger_;
  Knowledge known_;
  std::vector<uint64_t> sent_;  // by receiver
  std::vector<Loan> loans_;
};

}  // namespace hvd::testing
