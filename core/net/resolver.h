// SPDX-License-Identifier: Apache-2.0
// Looks up host names with a deadline, which getaddrinfo(3) does not have: with a name server that
// does not answer it returns after 5 s times two tries for each server in /etc/resolv.conf.
//
// Each look-up runs on a thread of its own, hvd-resolve, which is detached. A caller whose deadline
// passes leaves the thread behind; it ends when getaddrinfo returns. Callers that ask for a name
// while it is being looked up wait for the same look-up, so that tries that follow each other never
// have more than one thread for a name. getaddrinfo_a(3) was not taken: it has the same threads
// inside, cannot cancel a look-up that has begun either, and its threads and locks do not survive a
// fork.
//
// Safe from any thread, and in a forked child: the child begins without the look-ups of its parent,
// whose threads it does not have.
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
  // The addresses of a host, with port 0. Called on hvd-resolve; may block. kNotFound: there is no
  // such name, now at least.
  using LookUp = std::function<Result<std::vector<Endpoint>>(const std::string& host)>;

  explicit Resolver(LookUp look_up);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // The one that asks getaddrinfo.
  static Resolver& system();

  // Each address once, in the order of the look-up. kTimeout at the deadline, kUnavailable when no
  // thread can be started. Addresses in numbers need neither a thread nor a name server.
  Result<std::vector<Endpoint>> resolve(const std::string& host, uint16_t port, Deadline deadline);

 private:
  struct State;
  State& state();

  const LookUp look_up_;
  std::atomic<State*> state_;  // replaced in a forked child
};

}  // namespace hvd
