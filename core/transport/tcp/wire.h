// SPDX-License-Identifier: Apache-2.0
// The messages by which ranks find, greet and watch each other. Decoders take bytes from the
// network: they return kInvalidArgument for bytes that are malformed, out of range or too long.
// Pure functions, safe from any thread. Fields are encoded in the order of their declaration
// (net/codec.h); a Hello starts with a magic number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "net/address.h"
#include "net/codec.h"

namespace hvd {

// In bytes.
inline constexpr size_t kNameLimit = 1024;          // of any text below
inline constexpr size_t kHelloLimit = 2048;         // of an encoded Hello
inline constexpr size_t kWatchMessageLimit = 2048;  // of an encoded WatchMessage

// The record of one rank, which the rank publishes at the rendezvous server.
struct PeerRecord {
  std::string host_name;
  std::string boot_id;  // of the kernel that the rank runs on
  uint64_t shm_device;  // device of /dev/shm: equal if two containers share it
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
  std::vector<Address> addresses;  // where it listens for ranks of other hosts
  bool tags = false;               // whether its data links between hosts have tags

  // Two ranks can share memory if and only if their identities are equal.
  std::string host_identity() const;
  // The rank's name in messages: "host b, pid 17".
  std::string name() const;
};
ByteBuffer encode(const PeerRecord& record);
Result<PeerRecord> decode_peer_record(ConstBytes bytes);

// The greeting: the first message on each connection between ranks, after the connection is
// authenticated. (The hello of net/handshake.h is another message, before that.)
struct Hello {
  enum class Purpose : uint8_t { kData = 1, kWatch = 2, kControl = 3 };
  std::string round;  // FabricOptions::round
  Purpose purpose;
  int32_t from;  // ranks of the job
  int32_t to;
  uint64_t communicator;  // for kData and kControl
};
ByteBuffer encode(const Hello& hello);
// Checks that the ranks are different and from 0 to size - 1.
Result<Hello> decode_hello(ConstBytes bytes, int size);

// The messages of a watch connection (peer_watch.h).
struct WatchMessage {
  enum class Kind : uint8_t {
    kGoodbye = 1,  // the sender leaves cleanly; its closed connection is not a loss
    kFailure = 2,  // the job has failed; each rank passes it on once
    kAlive = 3,    // the sender still runs
  };
  Kind kind;
  // For kFailure: the rank that found it, the lost rank or -1, the StatusCode, and the text.
  int32_t origin = -1;
  int32_t lost_rank = -1;
  uint8_t code = 0;
  std::string text;
  // For kAlive: milliseconds since any rank moved data, according to the messages that the sender
  // has received.
  uint32_t idle_ms = kNeverMoved;
  static constexpr uint32_t kNeverMoved = ~uint32_t{0};
};
ByteBuffer encode(const WatchMessage& message);
Result<WatchMessage> decode_watch_message(ConstBytes bytes, int size);

// Encodes the failure of rank `origin` for the other ranks, and decodes it there: a lost rank stays
// the lost rank (kPeerLost), any other failure becomes kAborted by `origin`.
WatchMessage failure_message(int origin, const Status& reason);
Status failure_from(const WatchMessage& message);

}  // namespace hvd
