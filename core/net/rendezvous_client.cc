// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/text.h"
#include "net/authenticate.h"
#include "net/rendezvous.h"
#include "net/rendezvous_table.h"
#include "net/resolver.h"
#include "net/retry_pauses.h"
#include "net/socket.h"

namespace hvd {
namespace {

// Time limit for the answer to kStopWait, which names the missing keys after a wait has timed out.
constexpr std::chrono::seconds kMissingTimeout{1};
// How often a wait calls its `check`.
constexpr std::chrono::milliseconds kCheckEvery{50};

// Tries before the first warning: about one second (net/retry_pauses.h).
constexpr int kTriesInSilence = 8;

// Whether another try can succeed. Ranks and the process that runs the rendezvous server start at
// the same time. A client that starts before the server finds its connection refused (kUnavailable)
// or the server's host name unknown (kNotFound). A connection may also be closed before it is
// authenticated (kPeerLost): by a proxy whose backend is not up yet, or by an acceptor that has too
// many connections. Another job, version or HOROVOD_TLS does not change, so there is no other try.
bool may_work_later(const Status& failure) {
  return failure.code() == StatusCode::kUnavailable || failure.code() == StatusCode::kNotFound ||
         failure.code() == StatusCode::kPeerLost;
}

Status out_of_time(const Status& last, int tries) {
  if (last.code() == StatusCode::kUnavailable) {
    return timeout_error("no server answers there: " + last.message());
  }
  return timeout_error("tried " + std::to_string(tries) +
                       " times until the time limit; the last failure: " + last.message());
}

// All addresses of `places` that can be resolved now; fails if there is none.
Result<std::vector<Endpoint>> look_up(std::string_view places, Resolver& resolver,
                                      Deadline deadline) {
  std::vector<Endpoint> endpoints;
  Status missing;
  for (const std::string_view place : split(places, ',')) {
    const auto found = resolve(place, resolver, deadline);
    if (found.is_ok()) {
      endpoints.insert(endpoints.end(), found->begin(), found->end());
    } else if (found.status().code() == StatusCode::kInvalidArgument) {
      return found.status();
    } else {
      missing = found.status();
    }
  }
  if (endpoints.empty()) return missing;
  return endpoints;
}

Result<AuthenticatedStream> connect_once(std::span<const Endpoint> where, const Secret& secret,
                                         bool tls, Deadline deadline) {
  HVD_TRY_ASSIGN(Fd socket, connect_any(where, deadline));
  return connect_stream(std::move(socket), secret, {tls}, deadline);
}

template <typename... Args>
ByteBuffer request(uint64_t id, RendezvousOp op, const Args&... args) {
  Encoder encoder;
  encoder.put(id).put(static_cast<uint8_t>(op));
  (encoder.put(args), ...);
  return encoder.take();
}

}  // namespace

Result<std::unique_ptr<RendezvousClient>> RendezvousClient::connect(std::span<const Endpoint> where,
                                                                    const Secret& secret, bool tls,
                                                                    Deadline deadline) {
  return connect_when_up([&] { return connect_once(where, secret, tls, deadline); }, deadline);
}

Result<std::unique_ptr<RendezvousClient>> RendezvousClient::connect(std::string_view places,
                                                                    const Secret& secret, bool tls,
                                                                    Deadline deadline) {
  return connect(places, secret, tls, deadline, Resolver::system());
}

Result<std::unique_ptr<RendezvousClient>> RendezvousClient::connect(std::string_view places,
                                                                    const Secret& secret, bool tls,
                                                                    Deadline deadline,
                                                                    Resolver& resolver) {
  const auto try_once = [&]() -> Result<AuthenticatedStream> {
    HVD_TRY_ASSIGN(const auto where, look_up(places, resolver, deadline));
    return connect_once(where, secret, tls, deadline);
  };
  return connect_when_up(try_once, deadline);
}

Result<std::unique_ptr<RendezvousClient>> RendezvousClient::connect_when_up(
    FunctionRef<Result<AuthenticatedStream>()> try_once, Deadline deadline) {
  const auto patience =
      std::min(kMostPatience, std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()));
  Status before;  // failure of the previous try
  for (RetryPauses pauses(deadline);;) {
    auto peer = try_once();
    if (peer.is_ok()) {
      auto client =
          std::unique_ptr<RendezvousClient>(new RendezvousClient(Channel(std::move(peer).value())));
      client->set_answer_timeout(patience);
      return client;
    }
    Status why = peer.status();
    if (may_work_later(why)) {
      // No warning for a refused connection, which is normal at the start of a job.
      if (pauses.tries() == kTriesInSilence && why.code() != StatusCode::kUnavailable) {
        HVD_LOG(kWarning, "rendezvous server: {}; the client tries again until the time limit",
                why.message());
      }
      before = why;
      if (pauses.pause()) continue;
      why = out_of_time(why, pauses.tries());
    } else if (why.code() == StatusCode::kTimeout && !before.is_ok()) {
      why = timeout_error(why.message() + "; the failure before it: " + before.message());
    }
    return why.with_context("rendezvous server");
  }
}

RendezvousClient::RendezvousClient(Channel channel) : channel_(std::move(channel)) {}

bool RendezvousClient::is_served_here() const {
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  if (getsockname(channel_.fd(), reinterpret_cast<sockaddr*>(&own), &length) != 0) return false;
  const auto here = Endpoint::from_sockaddr(reinterpret_cast<sockaddr*>(&own), length);
  // A connection to an address of this machine has the same local address.
  return here.is_ok() && here->unmapped().host() == channel_.peer().unmapped().host() &&
         RendezvousServer::has_port(channel_.peer().port());
}

Status RendezvousClient::failed(const Status& why) const {
  return why.with_context("rendezvous server " + channel_.peer().to_string());
}

Status RendezvousClient::send(ConstBytes message, Deadline deadline) {
  const Status sent = channel_.send(message, deadline);
  return sent.is_ok() ? sent : failed(sent);
}

Result<ByteBuffer> RendezvousClient::receive(uint64_t oldest_id, Deadline deadline) {
  while (true) {
    auto message = channel_.recv(deadline);
    if (!message.is_ok()) return failed(message.status());
    Decoder answer(*message);
    uint64_t id = 0;
    uint8_t code = 0;
    std::string text;
    ByteBuffer result;
    HVD_TRY(answer.get(id));
    if (id < oldest_id) continue;  // the answer to a request whose deadline had passed
    HVD_TRY(answer.get(code));
    HVD_TRY(answer.get(text));
    HVD_TRY(answer.get(result));
    HVD_TRY(answer.finish());
    received_id_ = id;
    if (code == static_cast<uint8_t>(StatusCode::kOk)) return result;
    if (code > static_cast<uint8_t>(kLastStatusCode)) {
      return failed(internal_error("answered with unknown status " + std::to_string(code)));
    }
    if (code == static_cast<uint8_t>(StatusCode::kPeerLost)) {
      Decoder loss(result);
      int32_t rank = 0;
      std::string why;
      HVD_TRY(loss.get(rank));
      HVD_TRY(loss.get(why));
      return peer_lost(rank, why);
    }
    return failed(Status(static_cast<StatusCode>(code), text));
  }
}

Result<ByteBuffer> RendezvousClient::receive(uint64_t oldest_id, Deadline deadline,
                                             FunctionRef<Status()> check) {
  while (true) {
    HVD_TRY(check());
    auto answer = receive(oldest_id, earlier(deadline, Deadline::after(kCheckEvery)));
    if (answer.status().code() != StatusCode::kTimeout || deadline.expired()) return answer;
  }
}

Result<ByteBuffer> RendezvousClient::call(ConstBytes message) {
  const Deadline deadline = Deadline::after(answer_timeout_);
  HVD_TRY(send(message, deadline));
  return receive(last_id_, deadline);
}

Status RendezvousClient::set(std::string_view key, ConstBytes value) {
  return call(request(++last_id_, RendezvousOp::kSet, key, value)).status();
}

Result<ByteBuffer> RendezvousClient::get(std::string_view key) {
  return call(request(++last_id_, RendezvousOp::kGet, key));
}

Result<ByteBuffer> RendezvousClient::wait(std::string_view key, Deadline deadline) {
  HVD_TRY_ASSIGN(std::vector<ByteBuffer> values, wait_all({std::string(key)}, deadline));
  return std::move(values.at(0));
}

Result<std::vector<ByteBuffer>> RendezvousClient::wait_all(const std::vector<std::string>& keys,
                                                           Deadline deadline) {
  return wait_all(keys, deadline, [] { return Status::ok(); });
}

Result<std::vector<ByteBuffer>> RendezvousClient::wait_all(const std::vector<std::string>& keys,
                                                           Deadline deadline,
                                                           FunctionRef<Status()> check) {
  if (keys.empty()) return std::vector<ByteBuffer>();
  return wait_values(request(++last_id_, RendezvousOp::kWaitAll, keys), keys.size(), deadline,
                     check);
}

Result<std::vector<ByteBuffer>> RendezvousClient::wait_for(const std::vector<std::string>& keys,
                                                           const std::vector<int>& setters,
                                                           Deadline deadline,
                                                           FunctionRef<Status()> check) {
  HVD_CHECK(setters.size() == keys.size());
  if (keys.empty()) return std::vector<ByteBuffer>();
  const std::vector<int32_t> ranks(setters.begin(), setters.end());
  return wait_values(request(++last_id_, RendezvousOp::kWaitFor, keys, ranks), keys.size(),
                     deadline, check);
}

Result<std::vector<ByteBuffer>> RendezvousClient::wait_values(ConstBytes request, size_t keys,
                                                              Deadline deadline,
                                                              FunctionRef<Status()> check) {
  const uint64_t id = last_id_;
  HVD_TRY(send(request, Deadline::after(answer_timeout_)));
  Result<ByteBuffer> answer = receive(id, deadline, check);
  if (answer.status().code() == StatusCode::kTimeout) answer = stop_wait(id, keys);
  HVD_TRY_ASSIGN(const ByteBuffer encoded, std::move(answer));
  std::vector<ByteBuffer> values;
  Decoder decoder(encoded);
  HVD_TRY(decoder.get(values));
  HVD_TRY(decoder.finish());
  if (values.size() != keys) {
    return failed(internal_error("sent " + std::to_string(values.size()) + " values for " +
                                 std::to_string(keys) + " keys"));
  }
  return values;
}

Result<ByteBuffer> RendezvousClient::stop_wait(uint64_t wait_id, size_t keys) {
  const Deadline deadline = Deadline::after(kMissingTimeout);
  HVD_TRY(send(request(++last_id_, RendezvousOp::kStopWait), deadline));
  HVD_TRY_ASSIGN(ByteBuffer answer, receive(wait_id, deadline));
  if (received_id_ == wait_id) return answer;  // the wait has ended in the meantime
  Decoder decoder(answer);
  uint32_t missing = 0;
  std::vector<std::string> names;
  HVD_TRY(decoder.get(missing));
  HVD_TRY(decoder.get(names));
  return failed(timeout_error("timed out while waiting for " + std::to_string(missing) + " of " +
                              std::to_string(keys) + " keys: " + join(names, ", ") +
                              (missing > names.size() ? ", ..." : "")));
}

Result<bool> RendezvousClient::remove(std::string_view key) {
  HVD_TRY_ASSIGN(const ByteBuffer answer, call(request(++last_id_, RendezvousOp::kRemove, key)));
  bool existed = false;
  HVD_TRY(Decoder(answer).get(existed));
  return existed;
}

Result<std::vector<std::string>> RendezvousClient::list(std::string_view prefix) {
  HVD_TRY_ASSIGN(const ByteBuffer answer, call(request(++last_id_, RendezvousOp::kList, prefix)));
  std::vector<std::string> keys;
  HVD_TRY(Decoder(answer).get(keys));
  return keys;
}

Result<int64_t> RendezvousClient::add(std::string_view key, int64_t delta) {
  HVD_TRY_ASSIGN(const ByteBuffer answer,
                 call(request(++last_id_, RendezvousOp::kAdd, key, delta)));
  int64_t sum = 0;
  HVD_TRY(Decoder(answer).get(sum));
  return sum;
}

Status RendezvousClient::enter_group(std::string_view group, int rank) {
  return call(request(++last_id_, RendezvousOp::kEnter, group, int32_t{rank})).status();
}

Status RendezvousClient::leave_group() {
  return call(request(++last_id_, RendezvousOp::kLeave)).status();
}

Status RendezvousClient::report_loss(int rank, std::string_view why) {
  return call(request(++last_id_, RendezvousOp::kLose, int32_t{rank}, why)).status();
}

}  // namespace hvd
