// SPDX-License-Identifier: Apache-2.0
// The rendezvous server: where the ranks of a job find each other. Small values under names, kept
// in the memory of one server; waiting for a name is woken by the server, never polled.
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

// What the rendezvous server refuses to hold; each refusal is an error that names the limit.
struct RendezvousLimits {
  size_t key_bytes = 1024;
  size_t value_bytes = size_t{4} << 20;  // at most 15 MiB: an answer has to fit one frame
  size_t keys = size_t{1} << 20;
  size_t total_bytes = size_t{256} << 20;  // keys and values together
};

struct RendezvousServerOptions {
  Endpoint bind = Endpoint::any_v6();
  std::vector<Endpoint> more;  // other addresses to listen on as well
  bool tls = false;            // HOROVOD_TLS
  RendezvousLimits limits;
  std::chrono::milliseconds handshake_timeout{5'000};
  size_t max_unauthenticated = 256;
};

class RendezvousServer {
 public:
  // Listens and starts the thread `hvd-rendezvous`.
  static Result<std::unique_ptr<RendezvousServer>> start(const Secret& secret,
                                                         const RendezvousServerOptions& options);
  ~RendezvousServer();  // stop()

  // Where it listens, with the port it got.
  const Endpoint& endpoint() const { return endpoints_.front(); }
  // The same for each address, the first first.
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

// One connection to a rendezvous server. One caller at a time: a thread that wants to wait while
// another one sets opens a second client. A deadline that passes leaves the client usable; a lost
// connection (kPeerLost) does not.
class RendezvousClient {
 public:
  // Tries until the deadline: the rendezvous server may come up later than its clients, and so may
  // its name. A connection that is closed before it is authenticated is tried again too. A
  // rendezvous server that does not fit is final: kUnauthenticated for another job, kPrecondition
  // for another version or another HOROVOD_TLS.
  static Result<std::unique_ptr<RendezvousClient>> connect(std::span<const Endpoint> where,
                                                           const Secret& secret, bool tls,
                                                           Deadline deadline);
  // `places` as for resolve(), several with commas between them.
  static Result<std::unique_ptr<RendezvousClient>> connect(std::string_view places,
                                                           const Secret& secret, bool tls,
                                                           Deadline deadline);
  static Result<std::unique_ptr<RendezvousClient>> connect(std::string_view places,
                                                           const Secret& secret, bool tls,
                                                           Deadline deadline, Resolver& resolver);

  // Whether the rendezvous server is served by this process, and so ends with it.
  bool is_served_here() const;

  // How long the server may take for what needs no waiting. Unless set, the time that connect() was
  // given, and at most kMostPatience: a start must not wait for one answer longer than for all.
  static constexpr std::chrono::milliseconds kMostPatience{30'000};
  void set_answer_timeout(std::chrono::milliseconds timeout) { answer_timeout_ = timeout; }

  // Creates or replaces.
  Status set(std::string_view key, ConstBytes value);
  Status set(std::string_view key, std::string_view value) { return set(key, bytes_of(value)); }
  // kNotFound when there is no such key.
  Result<ByteBuffer> get(std::string_view key);
  // Waits until the key exists.
  Result<ByteBuffer> wait(std::string_view key, Deadline deadline);
  // Waits until all of them exist at the same time; values in the order of `keys`. One round trip:
  // n ranks gather n records with n requests. kTimeout names the keys that are missing.
  Result<std::vector<ByteBuffer>> wait_all(const std::vector<std::string>& keys, Deadline deadline);
  // The same, but ends with the failure of `check`, which is called now and then, should it fail.
  Result<std::vector<ByteBuffer>> wait_all(const std::vector<std::string>& keys, Deadline deadline,
                                           FunctionRef<Status()> check);
  // The same, where rank `setters[i]` of our group is to set `keys[i]`: kPeerLost, and which rank,
  // when one of them leaves the group and has not.
  Result<std::vector<ByteBuffer>> wait_for(const std::vector<std::string>& keys,
                                           const std::vector<int>& setters, Deadline deadline,
                                           FunctionRef<Status()> check);
  // Whether there was one.
  Result<bool> remove(std::string_view key);
  // The keys that begin with `prefix`, sorted.
  Result<std::vector<std::string>> list(std::string_view prefix);
  // Adds to a counter, which starts at 0, and returns the new value. The value is kept as decimal
  // text, so that get() and wait() see it.
  Result<int64_t> add(std::string_view key, int64_t delta);

  // Makes this client rank `rank` of `group`, and of no other. Should its connection end before it
  // leaves, it is lost: every wait in that group for a key that does not exist, now or later, fails
  // with kPeerLost and names the first rank that was lost. Without that, who waits for the key of a
  // dead rank would do so until its deadline.
  Status enter_group(std::string_view group, int rank);
  Status leave_group();
  // Declares `rank` of our group lost. Returns the group's first loss, which is this or another.
  Status report_loss(int rank, std::string_view why);

 private:
  explicit RendezvousClient(Channel channel);
  // Tries until it succeeds, fails for good, or the deadline comes.
  static Result<std::unique_ptr<RendezvousClient>> connect_when_up(
      FunctionRef<Result<AuthenticatedStream>()> try_once, Deadline deadline);
  Status failed(const Status& why) const;
  Status send(ConstBytes message, Deadline deadline);
  // The next answer that is not older than request `oldest_id`.
  Result<ByteBuffer> receive(uint64_t oldest_id, Deadline deadline);
  // The same, while `check` succeeds.
  Result<ByteBuffer> receive(uint64_t oldest_id, Deadline deadline, FunctionRef<Status()> check);
  // Sends the request with id last_id_ and waits for its answer.
  Result<ByteBuffer> call(ConstBytes message);
  // Sends the request of a wait, with id last_id_, and waits.
  Result<std::vector<ByteBuffer>> wait_values(ConstBytes request, size_t keys, Deadline deadline,
                                              FunctionRef<Status()> check);
  // Ends the wait `wait_id`, which has timed out, with an error that names what is missing.
  Result<ByteBuffer> stop_wait(uint64_t wait_id, size_t keys);

  Channel channel_;
  std::chrono::milliseconds answer_timeout_ = kMostPatience;
  uint64_t last_id_ = 0;
  uint64_t received_id_ = 0;  // of the answer that receive() returned last
};

}  // namespace hvd
