// SPDX-License-Identifier: Apache-2.0
// What the rendezvous server holds and who waits for what: pure, no socket. Requests come in as
// bytes, answers go out as bytes; the server carries them.
//
//   request = id (8 bytes) · op (1 byte) · arguments        answer = id · status · result
//
// A client has one request open at a time; a new one drops the wait that came before it. The result
// of an answer kPeerLost is the lost rank and why.
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
  kSet = 1,   // key, value
  kGet,       // key → value
  kWaitAll,   // keys → values
  kStopWait,  // → how many keys of the wait were missing, names of the first few
  kRemove,    // key → whether it was there
  kList,      // prefix → keys
  kAdd,       // key, delta → sum
  kEnter,     // group, rank
  kLeave,     // nothing
  kLose,      // rank, why → kPeerLost with the first loss of the client's group
  kWaitFor,   // keys, for each the rank that sets it → values
};

class RendezvousTable {
 public:
  using ClientId = uint64_t;
  // Sends an answer; must not call back into the table.
  using SendAnswer = std::function<void(ClientId client, ByteBuffer answer)>;

  RendezvousTable(const RendezvousLimits& limits, SendAnswer send_answer);

  // Serves one request. Fails when it cannot be understood: the client should be cut off.
  Status handle(ClientId client, ConstBytes request);
  // The client is gone. If it is in a group that is a loss to the others.
  void forget(ClientId client);

  size_t keys() const { return values_.size(); }
  size_t waiters() const { return waits_.size(); }
  size_t total_bytes() const { return total_bytes_; }

 private:
  struct Wait {
    uint64_t id;
    std::vector<std::string> keys;
    std::vector<int32_t> setters;  // of each key, or empty
    size_t blocked_on = 0;         // index of the missing key that it sleeps on
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
    std::set<int32_t> left;    // in peace, and will set nothing any more
    std::optional<Loss> loss;  // the first
  };

  Status set(std::string_view key, ConstBytes value);
  Result<int64_t> add(std::string_view key, int64_t delta);
  // Answers the wait if all its keys exist, or if it is in vain; else puts it to sleep on a key
  // that does not exist.
  void try_finish(ClientId client);
  void wake(const std::string& key);
  void drop_wait(ClientId client);
  Status check_limits(std::string_view key, size_t value_bytes) const;
  Result<ByteBuffer> values_of(const std::vector<std::string>& keys) const;
  Status enter(ClientId client, std::string_view group, int32_t rank);
  void leave(ClientId client);
  void lose(const std::string& group, const Loss& loss);
  const Loss* loss_known_to(ClientId client) const;
  // Because the client's group has lost a rank, or because a rank has left that was to set a key.
  std::optional<Loss> why_in_vain(ClientId client, const Wait& wait) const;
  // Ends the waits of a group that are in vain now.
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
  // Each wait sleeps on one key only: n ranks that wait for n keys cost n entries, not n².
  std::unordered_map<std::string, std::vector<ClientId>> sleepers_;
  std::unordered_map<ClientId, Member> members_;
  // With members, or with a loss that those who come later have to hear of.
  std::map<std::string, Group, std::less<>> groups_;
};

}  // namespace hvd
