// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>
#include <utility>

#include "transport/fabric/impl.h"

namespace hvd {
namespace {

// Pause of hvd-net after a failure that may repeat at once, so that the thread does not spin until
// the fabric is destroyed.
constexpr std::chrono::milliseconds kPauseWithoutMemory{10};

}  // namespace

void Fabric::Impl::run() noexcept {
  lifelines_.install_on_this_thread();
  while (!stop_) {
    try {
      serve();
    } catch (...) {
      // There is no memory. The thread continues: it holds the lifelines, and if it ended, the
      // peers would report the death of this process.
      health_.fail(no_memory_);
      std::this_thread::sleep_for(kPauseWithoutMemory);
    }
  }
}

void Fabric::Impl::serve() {
  watch_->update();
  if (left_) peer_acceptor_.reset();  // accept no more connections
  Deadline deadline = watch_->next_beat();
  if (peer_acceptor_) deadline = earlier(deadline, peer_acceptor_->next_deadline());
  if (const Status waited = poller_->wait(events_, deadline); !waited.is_ok()) {
    health_.fail(waited.with_context("network thread"));
    std::this_thread::sleep_for(kPauseWithoutMemory);
    return;
  }
  for (const PollEvent& event : events_) {
    if (waker_->on_event(event) || watch_->on_event(event)) continue;
    if (peer_acceptor_) (void)peer_acceptor_->on_event(event);
  }
  if (peer_acceptor_) peer_acceptor_->expire();
  watch_->beat();
}

Status Fabric::Impl::on_peer(const Hello& hello, AuthenticatedStream peer) {
  if (hello.purpose == Hello::Purpose::kData) {
    return pending_connections_.put_data(hello, make_in_link(hello.from, std::move(peer)));
  }
  if (hello.purpose == Hello::Purpose::kControl)
    return pending_connections_.put_control(hello, std::move(peer));
  return watch_->add(hello.from, /*outgoing=*/false, Channel(std::move(peer), kWatchMessageLimit),
                     (*directory_)[hello.from].name(), watchable_pid(hello.from));
}

int Fabric::Impl::watchable_pid(int peer) const {
  const PeerRecord& record = (*directory_)[peer];
  const bool same_process = record.pid == (*directory_)[options_.rank].pid;
  return directory_->shares_pids(peer) && !same_process ? record.pid : 0;
}

void Fabric::Impl::leave() {
  if (watch_ == nullptr || left_.exchange(true)) return;
  watch_->say_goodbye();
  // Leaves the group at the rendezvous server, so that no rank that makes a mesh waits for this
  // rank.
  if (std::exchange(entered_, false)) (void)rendezvous_->leave_group();
  health_.leave(aborted("this rank has left the job"));
  poller_->wake();
}

// The thread hvd-net runs until here because it holds the lifelines of meshes that still exist. If
// it ended earlier, the kernel would set FUTEX_OWNER_DIED in them, and the peers would report this
// process as dead.
Fabric::Impl::~Impl() {
  leave();
  if (entered_) (void)rendezvous_->leave_group();
  if (!thread_.joinable()) return;
  stop_ = true;
  poller_->wake();
  thread_.join();
}

}  // namespace hvd
