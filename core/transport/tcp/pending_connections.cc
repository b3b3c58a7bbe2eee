// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/pending_connections.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hvd {
namespace {

// Most communicators that peers use and this rank has not made yet. The limit keeps a faulty rank
// from filling our memory.
constexpr size_t kMostUnclaimed = 1024;

Status has_one_already(const Hello& hello) {
  return precondition(
      fmt::format("rank {} has a link to communicator {} already", hello.from, hello.communicator));
}

}  // namespace

Result<PendingConnections::Entry*> PendingConnections::find_or_make(uint64_t communicator) {
  const auto found = entries_.find(communicator);
  if (found != entries_.end()) return &found->second;
  HVD_TRY_ASSIGN(auto inbox, Inbox::create());
  Entry& made = entries_[communicator];
  made.inbox = std::move(inbox);
  return &made;
}

Result<PendingConnections::Entry*> PendingConnections::entry_for(const Hello& hello) {
  const auto unclaimed = std::count_if(entries_.begin(), entries_.end(),
                                       [](const auto& entry) { return !entry.second.claimed; });
  if (!entries_.contains(hello.communicator) &&
      unclaimed >= static_cast<std::ptrdiff_t>(kMostUnclaimed)) {
    return unavailable(fmt::format("rank {} asks for one more unknown communicator, {}", hello.from,
                                   hello.communicator));
  }
  return find_or_make(hello.communicator);
}

Status PendingConnections::put_data(const Hello& hello, std::unique_ptr<InLink> link) {
  MutexLock lock(mutex_);
  HVD_TRY_ASSIGN(Entry * entry, entry_for(hello));
  return entry->inbox->put({hello.from, std::move(link)}) ? Status::ok() : has_one_already(hello);
}

Status PendingConnections::put_control(const Hello& hello, AuthenticatedStream peer) {
  MutexLock lock(mutex_);
  HVD_TRY_ASSIGN(Entry * entry, entry_for(hello));
  const bool is_new = entry->control.try_emplace(hello.from, std::move(peer)).second;
  changed_.notify_all();
  return is_new ? Status::ok() : has_one_already(hello);
}

Result<std::shared_ptr<Inbox>> PendingConnections::claim(uint64_t communicator) {
  MutexLock lock(mutex_);
  HVD_TRY_ASSIGN(Entry * entry, find_or_make(communicator));
  HVD_CHECK(!entry->claimed);
  entry->claimed = true;
  return entry->inbox;
}

void PendingConnections::drop(uint64_t communicator) {
  MutexLock lock(mutex_);
  entries_.erase(communicator);
}

Result<AuthenticatedStream> PendingConnections::wait_for_control(uint64_t communicator, int from,
                                                                 Health& health,
                                                                 Deadline deadline) {
  const Health::Listener wake(health, [this](const Status&) {
    MutexLock lock(mutex_);
    changed_.notify_all();
  });
  {
    MutexLock lock(mutex_);
    auto& arrived = entries_.at(communicator).control;
    while (!health.failed()) {
      // The empty entry stays, so that a second connection of the same rank is refused.
      if (const auto found = arrived.find(from); found != arrived.end()) {
        HVD_CHECK(found->second.stream != nullptr);
        return std::move(found->second);
      }
      if (!changed_.wait(mutex_, deadline) && !arrived.contains(from) && !health.failed()) {
        return timeout_error(
            fmt::format("rank {} has not opened its control connection in time", from));
      }
    }
  }
  return health.status();
}

}  // namespace hvd
