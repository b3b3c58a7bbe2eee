// SPDX-License-Identifier: Apache-2.0
// The rendezvous server, where the ranks of a job find each other: a table of small values under
// names (keys), in the memory of one process. A client that waits for a key is woken by the server;
// it does not poll. The protocol is described in net/rendezvous_table.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/fork_generation.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "net/address.h"
#include "net/channel.h"
#include "net/secret.h"

namespace hvd {

class Resolver;

// Limits on what the rendezvous server holds, in bytes unless noted. A request above a limit fails
// with an error that names the limit.
struct RendezvousLimits {
  size_t key_bytes = 1024;
  size_t value_bytes = size_t{4} << 20;    // must be below kFrameLimit: an answer is one frame
  size_t keys = size_t{1} << 20;           // a count
  size_t total_bytes = size_t{256} << 20;  // keys and values together
};

struct RendezvousServerOptions {
  Endpoint bind = Endpoint::any_v6();
  std::vector<Endpoint> more;  // further addresses to listen on
  bool tls = false;            // HOROVOD_TLS
  RendezvousLimits limits;
  std::chrono::milliseconds handshake_timeout{5'000};
  size_t max_unauthenticated = 256;
};

// Owns its listeners, its connections and its thread. start(), stop() and the destructor are called
// by one thread at a time. In a forked child the object does nothing.
class RendezvousServer {
 public:
  // Listens and starts the thread `hvd-rendezvous`, which serves all clients. Fails as listen_on().
  static Result<std::unique_ptr<RendezvousServer>> start(const Secret& secret,
                                                         const RendezvousServerOptions& options);
  ~RendezvousServer();  // stop()

  // The first address that it listens on, with the actual port.
  const Endpoint& endpoint() const { return endpoints_.front(); }
  // All of them: options.bind first, then options.more in their order.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  // Closes every connection and ends the thread. May be called twice.
  void stop();

  // Whether a server of this process listens on that port.
  static bool has_port(uint16_t port);

 private:
  class Loop;
  RendezvousServer(std::vector<Endpoint> endpoints, std::unique_ptr<Loop> loop);

  const std::vector<Endpoint> endpoints_;
  const std::unique_ptr<Loop> loop_;
  const ForkGeneration fork_generation_;
  std::thread thread_;
};

// One connection to a rendezvous server. One caller at a time: a thread that needs to wait while
// another thread sets keys opens a second client. A deadline that passes (kTimeout) leaves the
// client usable; a lost connection (kPeerLost) does not. Failures name the address of the server.
class RendezvousClient {
 public:
  // Tries until the deadline, because clients may start before the server, or before the name of
  // its host is known. Also tries again if the connection is closed before it is authenticated.
  // Does not try again after kUnauthenticated (another secret, so another job) or kPrecondition
  // (another version or another HOROVOD_TLS).
  static Result<std::unique_ptr<RendezvousClient>> connect(std::span<const Endpoint> where,
                                                           const Secret& secret, bool tls,
                                                           Deadline deadline);
  // `places`: one or more addresses as for resolve(), separated by commas.
  static Result<std::unique_ptr<RendezvousClient>> connect(std::string_view places,
                                                           const Secret& secret, bool tls,
                                                           Deadline deadline);
  static Result<std::unique_ptr<RendezvousClient>> connect(std::string_view places,
                                                           const Secret& secret, bool tls,
                                                           Deadline deadline, Resolver& resolver);

  // Whether this process runs the rendezvous server, which then ends with the process.
  bool is_served_here() const;

  // Time limit for the answer to a request that does not wait for a key. The default is the time
  // limit of connect(), but at most kMostPatience. So a start with a short limit does not wait
  // longer than that limit for one answer.
  static constexpr std::chrono::milliseconds kMostPatience{30'000};
  void set_answer_timeout(std::chrono::milliseconds timeout) { answer_timeout_ = timeout; }

  // Creates or replaces.
  Status set(std::string_view key, ConstBytes value);
  Status set(std::string_view key, std::string_view value) { return set(key, bytes_of(value)); }
  // kNotFound if the key does not exist.
  Result<ByteBuffer> get(std::string_view key);
  // Waits until the key exists.
  Result<ByteBuffer> wait(std::string_view key, Deadline deadline);
  // Waits until all keys exist at the same time; returns the values in the order of `keys`. It is
  // one round trip: n ranks gather n records with n requests. kTimeout names the keys that are
  // missing.
  Result<std::vector<ByteBuffer>> wait_all(const std::vector<std::string>& keys, Deadline deadline);
  // The same, and calls `check` about every 50 ms: the first failure of `check` ends the wait.
  Result<std::vector<ByteBuffer>> wait_all(const std::vector<std::string>& keys, Deadline deadline,
                                           FunctionRef<Status()> check);
  // The same, where rank `setters[i]` of this client's group is expected to set `keys[i]`.
  // kPeerLost with the rank if one of them leaves the group without having set its key.
  Result<std::vector<ByteBuffer>> wait_for(const std::vector<std::string>& keys,
                                           const std::vector<int>& setters, Deadline deadline,
                                           FunctionRef<Status()> check);
  // Returns whether the key existed.
  Result<bool> remove(std::string_view key);
  // The keys that begin with `prefix`, sorted.
  Result<std::vector<std::string>> list(std::string_view prefix);
  // Adds to a counter, which starts at 0, and returns the new value. The server keeps it as decimal
  // text, so get() and wait() work on it.
  Result<int64_t> add(std::string_view key, int64_t delta);

  // Makes this client rank `rank` of `group`, and a member of no other group. If its connection
  // ends before it leaves the group, the rank is lost. From then on every member of the group that
  // waits for a missing key fails with kPeerLost and the first rank that was lost. Without groups,
  // a rank that waits for the key of a dead rank would wait until its deadline.
  Status enter_group(std::string_view group, int rank);
  Status leave_group();
  // Declares `rank` of our group lost. Returns kPeerLost with the first loss of the group, which
  // may be an earlier one.
  Status report_loss(int rank, std::string_view why);

 private:
  explicit RendezvousClient(Channel channel);
  // Calls `try_once` until it succeeds, until it fails with an error that another try cannot
  // change, or until the deadline.
  static Result<std::unique_ptr<RendezvousClient>> connect_when_up(
      FunctionRef<Result<AuthenticatedStream>()> try_once, Deadline deadline);
  Status failed(const Status& why) const;
  Status send(ConstBytes message, Deadline deadline);
  // The next answer whose id is at least `oldest_id`; older answers are dropped.
  Result<ByteBuffer> receive(uint64_t oldest_id, Deadline deadline);
  // The same; ends with the first failure of `check`.
  Result<ByteBuffer> receive(uint64_t oldest_id, Deadline deadline, FunctionRef<Status()> check);
  // Sends the request with id last_id_ and waits for its answer.
  Result<ByteBuffer> call(ConstBytes message);
  // Sends the request of a wait, with id last_id_, and waits.
  Result<std::vector<ByteBuffer>> wait_values(ConstBytes request, size_t keys, Deadline deadline,
                                              FunctionRef<Status()> check);
  // Ends the wait `wait_id`, which has timed out. Returns kTimeout with the names of the missing
  // keys, or the values if they arrived in the meantime.
  Result<ByteBuffer> stop_wait(uint64_t wait_id, size_t keys);

  Channel channel_;
  std::chrono::milliseconds answer_timeout_ = kMostPatience;
  uint64_t last_id_ = 0;
  uint64_t received_id_ = 0;  // of the answer that receive() returned last
};

}  // namespace hvd
