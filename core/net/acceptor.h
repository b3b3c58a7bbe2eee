// SPDX-License-Identifier: Apache-2.0
// The listening side of authenticated streams, driven by its owner's thread and poller.
//
// Many peers shake hands at once. One that says nothing, or the wrong thing, costs a descriptor
// and a few hundred bytes until its own deadline and never delays the others. When too many are
// waiting a random one is closed, of those that have come least far in the handshake: closing the
// oldest let a flood of silent connections end every handshake that took longer than the flood
// needed to fill the bound. A flood that sends hellos closes an honest peer only by chance, and
// clients try again; it never closes a peer that has proved itself and is still busy with TLS.
// Every refusal is logged, at most one line per second, with a count of what was left out.
//
//   Acceptor acceptor(std::move(listener), options, poller, kAcceptorToken, on_accepted);
//   while (...) {
//     HVD_TRY(poller.wait(events, acceptor.next_deadline()));
//     for (const PollEvent& event : events)
//       if (acceptor.owns(event.token)) acceptor.on_event(event);
//     acceptor.expire();
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
  std::string name = "listener";                       // says in log lines who refused
  bool tls = false;                                    // HOROVOD_TLS
  std::chrono::milliseconds handshake_timeout{5'000};  // for the whole handshake of one peer
  size_t max_pending = 256;                            // peers that have not yet proved themselves
  // Which of `count` peers to close when there are too many: random unless a test decides.
  std::function<size_t(size_t count)> choose;
};

class Acceptor {
 public:
  // Called from on_event() with each peer that proved itself; its descriptor is no longer in the
  // poller. Must not destroy the acceptor.
  using OnAccepted = std::function<void(AuthenticatedStream)>;

  // Registers itself with `poller`, which has to outlive it, under tokens whose upper 32 bits are
  // those of `token_base`; the lower 32 bits of `token_base` are zero.
  static Result<std::unique_ptr<Acceptor>> create(Fd listener, const Secret& secret,
                                                  AcceptorOptions options, Poller& poller,
                                                  uint64_t token_base, OnAccepted on_accepted);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  bool owns(uint64_t token) const { return token >> 32 == token_base_ >> 32; }
  void on_event(const PollEvent& event);

  // When expire() has to be called next; never() when nobody is waiting.
  Deadline next_deadline() const;
  // Closes the peers whose time is up.
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
  // The peer to close when there is no room for all.
  uint32_t choose_victim();
  void pause_accepting(const Status& why);

  const Fd listener_;
  const Secret secret_;
  const AcceptorOptions options_;
  std::minstd_rand random_;
  Poller& poller_;
  const uint64_t token_base_;
  const OnAccepted on_accepted_;

  // By age: ids grow, and all have the same time to live.
  std::map<uint32_t, std::unique_ptr<Pending>> pending_;
  uint32_t next_id_ = 1;                    // 0 is the listener
  Deadline resume_at_ = Deadline::never();  // while out of descriptors
  std::unique_ptr<Complaints> complaints_;
};

}  // namespace hvd
