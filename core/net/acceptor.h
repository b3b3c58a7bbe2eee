// SPDX-License-Identifier: Apache-2.0
// The listening side of authenticated streams, driven by its owner's thread and poller.
//
// Many peers are in their handshake at the same time. A peer that is silent, or sends something
// wrong, costs one descriptor and a few hundred bytes until its own deadline, and never delays
// another peer.
//
// When more than max_pending peers are in their handshake, the acceptor closes a random one of
// those that have made the least progress. It does not close the oldest one: a flood of silent
// connections would then end every handshake that takes longer than the flood needs to reach
// max_pending. If the connections of a flood send hellos, an honest peer is closed only by chance,
// and clients try again. No flood closes a peer that has sent its proof and is still busy with TLS.
//
// Here and in the options, "handshake" includes the TLS handshake that follows net/handshake.h.
//
// Every refusal is logged, at most one line per second, with the number of lines left out.
//
//   HVD_TRY_ASSIGN(auto acceptor, Acceptor::create(std::move(listener), secret, options, poller,
//                                                  kAcceptorTokens, on_accepted));
//   while (...) {
//     HVD_TRY(poller.wait(events, acceptor->next_deadline()));
//     for (const PollEvent& event : events)
//       if (acceptor->owns(event.token)) acceptor->on_event(event);
//     acceptor->expire();
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "net/fd.h"
#include "net/poller.h"
#include "net/secret.h"
#include "net/stream.h"

namespace hvd {

struct AcceptorOptions {
  std::string name = "listener";                       // of this listener, in log lines
  bool tls = false;                                    // HOROVOD_TLS
  std::chrono::milliseconds handshake_timeout{5'000};  // for the whole handshake of one peer
  size_t max_pending = 256;                            // peers whose handshake is not done
  // Index of the peer to close when there are too many, out of `count`. Empty: random. For tests.
  std::function<size_t(size_t count)> choose;
};

// Not thread-safe: every call is made on the thread that waits on `poller`. It owns the listener
// and the connections that are in their handshake, and closes them in its destructor.
class Acceptor {
 public:
  // Called from on_event() with each peer that has proved that it has the secret. Its descriptor is
  // no longer in the poller. Must not destroy the acceptor.
  using OnAccepted = std::function<void(AuthenticatedStream)>;

  // Adds its descriptors to `poller`, which must outlive it. The upper 32 bits of their tokens are
  // those of `token_base`, whose lower 32 bits must be zero. Fails if the poller does.
  static Result<std::unique_ptr<Acceptor>> create(Fd listener, const Secret& secret,
                                                  AcceptorOptions options, Poller& poller,
                                                  uint64_t token_base, OnAccepted on_accepted);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  bool owns(uint64_t token) const { return token >> 32 == token_base_ >> 32; }
  void on_event(const PollEvent& event);

  // When expire() has to be called next; never() if no handshake is running.
  Deadline next_deadline() const;
  // Closes the peers whose handshake took too long.
  void expire();

  size_t pending() const { return pending_.size(); }

 private:
  struct Pending;
  class Complaints;
  Acceptor(Fd listener, const Secret& secret, AcceptorOptions options, Poller& poller,
           uint64_t token_base, OnAccepted on_accepted);
  void accept_some();
  void admit(Fd socket);
  void advance(uint32_t id);
  void refuse(uint32_t id, const Status& why);
  // The id of the peer to close when there are too many.
  uint32_t choose_victim();
  void pause_accepting(const Status& why);

  const Fd listener_;
  const Secret secret_;
  const AcceptorOptions options_;
  std::minstd_rand random_;
  Poller& poller_;
  const uint64_t token_base_;
  const OnAccepted on_accepted_;

  // In order of age, because ids grow. All have the same timeout, so the first expires first.
  std::map<uint32_t, std::unique_ptr<Pending>> pending_;
  uint32_t next_id_ = 1;                    // 0 is the listener
  Deadline resume_at_ = Deadline::never();  // set while there is no free descriptor
  std::unique_ptr<Complaints> complaints_;
};

}  // namespace hvd
