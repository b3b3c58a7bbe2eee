// SPDX-License-Identifier: Apache-2.0
// The values of the rendezvous server and the waits of its clients, without a socket: requests in,
// answers out, both as bytes. The server moves requests and answers between this table and its
// connections, one frame each (net/frame.h). Fields are encoded as in net/codec.h.
//
//   request: field | type                       answer: field   | type
//   ---------------+-------------------         ----------------+---------------------------
//   id             | uint64, grows by 1         id              | uint64, of the request
//   op             | uint8, RendezvousOp        code            | uint8, StatusCode
//   arguments      | see RendezvousOp           message         | string, empty for kOk
//                  |                            result          | bytes, see RendezvousOp
//
// A client has one request open at a time; a new request drops the wait before it, if there is one.
// The result of a kPeerLost answer is the lost rank (int32) and the reason (string).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "net/codec.h"
#include "net/rendezvous.h"

namespace hvd {

enum class RendezvousOp : uint8_t {
  // arguments → result
  kSet = 1,   // key (string), value (bytes) → empty
  kGet,       // key (string) → value, not encoded further
  kWaitAll,   // keys (vector of string) → values (vector of bytes)
  kStopWait,  // none → number of missing keys (uint32), names of the first 8 (vector of string)
  kRemove,    // key (string) → whether it existed (bool)
  kList,      // prefix (string) → keys (vector of string)
  kAdd,       // key (string), delta (int64) → sum (int64)
  kEnter,     // group (string), rank (int32) → empty
  kLeave,     // none → empty
  kLose,      // rank (int32), reason (string) → kPeerLost with the first loss of the group
  kWaitFor,   // keys (vector of string), setting ranks (vector of int32) → as kWaitAll
};

// Not thread-safe: the server's thread makes all calls.
class RendezvousTable {
 public:
  using ClientId = uint64_t;
  // Sends an answer; must not call the table.
  using SendAnswer = std::function<void(ClientId client, ByteBuffer answer)>;

  RendezvousTable(const RendezvousLimits& limits, SendAnswer send_answer);

  // Serves one request. Fails if the request is malformed: the server then closes the connection.
  // Every other problem is an answer.
  Status handle(ClientId client, ConstBytes request);
  // The connection of the client has ended. If it is in a group, its rank is lost.
  void forget(ClientId client);

  size_t keys() const { return values_.size(); }
  size_t waiters() const { return waits_.size(); }
  size_t total_bytes() const { return total_bytes_; }

 private:
  struct Wait {
    uint64_t id;
    std::vector<std::string> keys;
    std::vector<int32_t> setters;  // the rank that sets each key; empty for kWaitAll
    size_t blocked_on = 0;         // index of a missing key; sleepers_ has the client there
  };

  struct Member {
    std::string group;
    int32_t rank;
  };
  struct Loss {
    int32_t rank;
    std::string why;
  };
  struct Group {
    std::set<ClientId> members;
    std::set<int32_t> left;    // ranks that have left, cleanly or not; they will set no more keys
    std::optional<Loss> loss;  // the first one
  };

  Status set(std::string_view key, ConstBytes value);
  Result<int64_t> add(std::string_view key, int64_t delta);
  // Answers the wait if all its keys exist, or if why_in_vain() returns a reason. Otherwise the
  // wait sleeps on a key that does not exist.
  void try_finish(ClientId client);
  void wake(const std::string& key);
  void drop_wait(ClientId client);
  Status check_limits(std::string_view key, size_t value_bytes) const;
  Result<ByteBuffer> values_of(const std::vector<std::string>& keys) const;
  Status enter(ClientId client, std::string_view group, int32_t rank);
  void leave(ClientId client);
  void lose(const std::string& group, const Loss& loss);
  const Loss* loss_known_to(ClientId client) const;
  // Why the wait cannot succeed: the client's group has lost a rank, or a rank that is expected to
  // set a key has left. None if it can still succeed.
  std::optional<Loss> why_in_vain(ClientId client, const Wait& wait) const;
  // Answers the waits of the group's members that can no longer succeed.
  void end_waits(const Group& group);
  void answer(ClientId client, uint64_t id, const Status& status, ConstBytes result = {});
  void answer(ClientId client, uint64_t id, const Loss& loss);

  Status handle_set(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_get(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_wait_all(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_stop_wait(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_remove(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_list(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_add(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_enter(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_leave(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_lose(ClientId client, uint64_t id, Decoder& arguments);
  Status handle_wait_for(ClientId client, uint64_t id, Decoder& arguments);

  const RendezvousLimits limits_;
  const SendAnswer send_answer_;
  std::map<std::string, ByteBuffer, std::less<>> values_;
  size_t total_bytes_ = 0;
  std::unordered_map<ClientId, Wait> waits_;
  // Clients that wait for a key, by that key. Each wait sleeps on one missing key only, so n ranks
  // that wait for n keys need n entries, not n².
  std::unordered_map<std::string, std::vector<ClientId>> sleepers_;
  std::unordered_map<ClientId, Member> members_;
  // A group exists while it has members, and after a loss, so that ranks that enter later learn of
  // it.
  std::map<std::string, Group, std::less<>> groups_;
};

}  // namespace hvd
