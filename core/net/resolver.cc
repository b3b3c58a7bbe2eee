// SPDX-License-Identifier: Apache-2.0
#include "net/resolver.h"

#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/fork_generation.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace hvd {
namespace {

using Addresses = std::vector<Endpoint>;

Result<Addresses> ask_system(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error == EAI_SYSTEM) return io_error("host \"" + host + "\"", errno);
  if (error == EAI_MEMORY) return unavailable("host \"" + host + "\": " + gai_strerror(error));
  if (error != 0) {
    return not_found("host \"" + host + "\": " + gai_strerror(error) +
                     "; check the name, or use the address of the host");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  Addresses addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    auto address = Endpoint::from_sockaddr(entry->ai_addr, entry->ai_addrlen);
    if (!address.is_ok()) continue;
    const Endpoint bare = address->with_port(0);
    if (std::find(addresses.begin(), addresses.end(), bare) == addresses.end()) {
      addresses.push_back(bare);
    }
  }
  if (addresses.empty()) return not_found("host \"" + host + "\" has no IPv4 or IPv6 address");
  return addresses;
}

}  // namespace

// Shared with the threads, which may outlive the resolver.
struct Resolver::State : std::enable_shared_from_this<State> {
  struct Ongoing {
    std::optional<Result<Addresses>> outcome;  // guarded by the State's mutex
  };

  Result<Addresses> wait(const LookUp& look_up, const std::string& host, Deadline deadline) {
    MutexLock lock(mutex);
    std::shared_ptr<Ongoing>& entry = ongoing[host];
    if (entry == nullptr) {
      entry = std::make_shared<Ongoing>();
      const Status started = start(look_up, host, entry);
      if (!started.is_ok()) {
        ongoing.erase(host);
        return started.with_context("host \"" + host + "\"");
      }
    }
    const std::shared_ptr<Ongoing> mine = entry;
    while (!mine->outcome.has_value()) {
      if (!changed.wait(mutex, deadline) && !mine->outcome.has_value()) {
        return timeout_error("host \"" + host +
                             "\": the name server has not answered in time; check "
                             "/etc/resolv.conf, or use the address of the host");
      }
    }
    return *mine->outcome;
  }

  Status start(const LookUp& look_up, const std::string& host,
               const std::shared_ptr<Ongoing>& entry) HVD_REQUIRES(mutex) {
    auto thread =
        try_start_thread("hvd-resolve", [self = shared_from_this(), look_up, host, entry] {
          Result<Addresses> outcome = unavailable("there is no memory left");
          try {
            outcome = look_up(host);
          } catch (const std::exception&) {  // std::bad_alloc: no exception may leave a thread
          }
          MutexLock lock(self->mutex);
          entry->outcome = std::move(outcome);
          self->ongoing.erase(host);  // the next caller starts a new look-up
          self->changed.notify_all();
        });
    if (!thread.is_ok()) return thread.status();
    thread->detach();
    return Status::ok();
  }

  const ForkGeneration fork_generation;
  Mutex mutex;
  CondVar changed;
  std::map<std::string, std::shared_ptr<Ongoing>> ongoing HVD_GUARDED_BY(mutex);
  std::shared_ptr<State> itself;  // released by the destructor of the Resolver
};

Resolver::Resolver(LookUp look_up) : look_up_(std::move(look_up)), state_(nullptr) {}

Resolver::~Resolver() {
  State* const last = state_.load();
  if (last == nullptr || last->fork_generation.in_child()) return;
  // Abandoned threads may hold it longer.
  const std::shared_ptr<State> released = std::move(last->itself);
}

Resolver& Resolver::system() {
  // Never destroyed: an abandoned thread may still use it while the process ends.
  static auto* const resolver =
      new Resolver([](const std::string& host) { return ask_system(host, 0); });
  return *resolver;
}

Resolver::State& Resolver::state() {
  State* known = state_.load();
  while (known == nullptr || known->fork_generation.in_child()) {
    const auto made = std::make_shared<State>();
    made->itself = made;
    // Leave the parent's state untouched: a thread that this process does not have may hold its
    // lock.
    if (state_.compare_exchange_strong(known, made.get())) return *made;
    made->itself = nullptr;
  }
  return *known;
}

Result<Addresses> Resolver::resolve(const std::string& host, uint16_t port, Deadline deadline) {
  Result<Addresses> found = ask_system(host, AI_NUMERICHOST);
  if (!found.is_ok()) found = state().wait(look_up_, host, deadline);
  if (!found.is_ok()) return found.status();
  for (Endpoint& address : *found) address = address.with_port(port);
  return found;
}

}  // namespace hvd
