// SPDX-License-Identifier: Apache-2.0
// A man in the middle: listens, forwards connections to a target, and changes, repeats, drops,
// swaps or cuts their records. It has the protocol but not the secret.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "net/address.h"
#include "net/codec.h"
#include "net/fd.h"
#include "transport/tcp/wire.h"

namespace hvd::testing {

enum class Action {
  kChangePayload,
  kChangeTag,
  kShortenLength,  // the length in the header of a record
  kRaiseLength,
  kRepeat,
  kDrop,
  kSwap,     // with the next record of the same direction
  kCut,      // closes the connection after half a record
  kSwallow,  // forwards no more bytes in this direction
};

class Relay {
 public:
  enum class Direction { kToServer, kToClient };  // the client is the side that has connected
  struct Attack {
    Action action;
    Direction direction = Direction::kToServer;
    // Attack only connections with this purpose in their greeting; nullopt: any. TLS hides it.
    std::optional<Hello::Purpose> purpose;
    int let_pass = 0;  // matching records that are forwarded unchanged before the attack
  };

  // `size` is the number of ranks of the job. With TLS records have other headers.
  Relay(const Endpoint& target, int size, bool tls);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }
  // Attacks once, at the next record that matches.
  void strike(const Attack& attack) HVD_EXCLUDES(mutex_);
  // Whether it has struck.
  bool has_struck() const { return struck_; }

 private:
  struct Connection;
  struct Flow;

  void accept_all();
  void pump(Connection& connection, Direction direction);
  // Forwards the complete records of `flow`; false ends the connection.
  bool pass(Connection& connection, Direction direction, Flow& flow);
  std::optional<Action> action_for(const Connection& connection, Direction direction)
      HVD_EXCLUDES(mutex_);
  // Bytes of the record at the front; 0 while it is incomplete.
  size_t record_size(ConstBytes bytes) const;

  const Endpoint target_;
  const int size_;
  const bool tls_;
  Fd listener_;
  Endpoint endpoint_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> struck_{false};
  Mutex mutex_;
  std::optional<Attack> attack_ HVD_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Connection>> connections_;  // accepting thread, then the destructor
  std::thread accepting_;
};

}  // namespace hvd::testing
