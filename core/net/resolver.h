// SPDX-License-Identifier: Apache-2.0
// Looks up host names with a deadline. getaddrinfo(3) has none: if a name server does not answer,
// it returns after 5 s times two tries for each server in /etc/resolv.conf.
//
// Each look-up runs on its own detached thread, hvd-resolve. A caller whose deadline passes
// abandons the thread, which ends when getaddrinfo returns. Callers that ask for a name while it is
// being looked up wait for the same look-up, so repeated tries never use more than one thread per
// name. We do not use getaddrinfo_a(3): it has the same threads inside, cannot cancel a look-up
// that has begun either, and its threads and locks do not survive a fork.
//
// Any thread may call resolve(), also in a forked child: the child starts without the look-ups of
// its parent, because it does not have their threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "net/address.h"

namespace hvd {

class Resolver {
 public:
  // Returns the addresses of a host, with port 0. Called on hvd-resolve; may block. kNotFound if
  // the name does not exist (it may exist later). It may be called after the Resolver is destroyed.
  using LookUp = std::function<Result<std::vector<Endpoint>>(const std::string& host)>;

  explicit Resolver(LookUp look_up);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // The instance that calls getaddrinfo.
  static Resolver& system();

  // Each address once, in the order of the look-up. kTimeout at the deadline, kUnavailable if no
  // thread can be started. Numeric addresses need neither a thread nor a name server.
  Result<std::vector<Endpoint>> resolve(const std::string& host, uint16_t port, Deadline deadline);

 private:
  struct State;
  State& state();

  const LookUp look_up_;
  std::atomic<State*> state_;  // replaced in a forked child
};

}  // namespace hvd
