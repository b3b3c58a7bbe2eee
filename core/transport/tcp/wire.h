// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other to find, greet and watch one another. Decoders take bytes from the
// network: they refuse what is malformed, out of range or longer than it can be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "net/address.h"
#include "net/codec.h"

namespace hvd {

inline constexpr size_t kNameLimit = 1024;          // of any text below
inline constexpr size_t kHelloLimit = 2048;         // of an encoded Hello
inline constexpr size_t kWatchMessageLimit = 2048;  // of an encoded WatchMessage

// One rank, as it publishes itself in the rendezvous server.
struct PeerRecord {
  std::string host_name;
  std::string boot_id;  // of the kernel that the rank runs on
  uint64_t shm_device;  // of /dev/shm, which containers share or not
  uint64_t net_space;   // inode of the network namespace
  uint64_t pid_space;   // inode of the pid namespace
  int32_t pid;          // in that namespace
  uint32_t uid;
  std::string local_name;  // of its socket for ranks in the same network namespace
  struct Address {
    Endpoint endpoint;
    uint8_t prefix_length;
    bool loopback;
  };
  std::vector<Address> addresses;  // where it listens for all others
  bool tags = false;               // whether its data links between hosts have tags

  // Two ranks can share memory exactly if these are equal.
  std::string host_identity() const;
  // How messages name the rank: "host b, pid 17".
  std::string name() const;
};
ByteBuffer encode(const PeerRecord& record);
Result<PeerRecord> decode_peer_record(ConstBytes bytes);

// The first message on each connection.
struct Hello {
  enum class Purpose : uint8_t { kData = 1, kWatch = 2, kControl = 3 };
  std::string round;  // which rendezvous of which job
  Purpose purpose;
  int32_t from;  // ranks in the job
  int32_t to;
  uint64_t communicator;  // for kData and kControl
};
ByteBuffer encode(const Hello& hello);
// Ranks are from 0 to size - 1 and differ.
Result<Hello> decode_hello(ConstBytes bytes, int size);

// What goes over a watch connection.
struct WatchMessage {
  enum class Kind : uint8_t {
    kGoodbye = 1,  // the sender leaves; its closed connection is no loss
    kFailure = 2,  // the job has failed; passed on to everyone
    kAlive = 3,    // the sender still runs
  };
  Kind kind;
  // For kFailure: who found it out, and what.
  int32_t origin = -1;
  int32_t lost_rank = -1;
  uint8_t code = 0;
  std::string text;
  // For kAlive: for how long no rank has moved data, as far as the sender knows.
  uint32_t idle_ms = kNeverMoved;
  static constexpr uint32_t kNeverMoved = ~uint32_t{0};
};
ByteBuffer encode(const WatchMessage& message);
Result<WatchMessage> decode_watch_message(ConstBytes bytes, int size);

// How rank `origin` tells the others why it failed, and what they make of it: a lost peer keeps its
// name, anything else is an abort by `origin`.
WatchMessage failure_message(int origin, const Status& reason);
Status failure_from(const WatchMessage& message);

}  // namespace hvd
