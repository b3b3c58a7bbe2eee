// SPDX-License-Identifier: Apache-2.0
// The ranks of one host as threads, each with what its process would have.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "transport/health.h"
#include "transport/shm/host_links.h"

namespace hvd::testing {

// A LifelineKeeper and the thread it runs on.
class KeeperThread {
 public:
  KeeperThread() {
    thread_ = start_thread("keeper", [this] {
      keeper_.install_on_this_thread();
      std::unique_lock lock(mutex_);
      installed_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return stop_; });
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return installed_; });
  }
  ~KeeperThread() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  LifelineKeeper& keeper() { return keeper_; }

 private:
  LifelineKeeper keeper_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool installed_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// Runs `body(links, health)` on `ranks` threads that share a segment of `kind`.
template <typename Body>
void run_host(int ranks, SegmentKind kind, Body body) {
  auto first = Segment::create(kind, HostLinks::bytes_needed(ranks));
  HVD_CHECK(first.is_ok());
  const std::string descriptor = (*first)->descriptor();
  std::vector<int> names(ranks);
  std::iota(names.begin(), names.end(), 0);
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    threads.push_back(start_thread("rank" + std::to_string(rank), [&, rank] {
      KeeperThread keeper;
      Health health;
      auto segment = Segment::attach(descriptor);
      HVD_CHECK(segment.is_ok());
      HostLinks links(std::move(*segment), rank, names, keeper.keeper(), health);
      HVD_CHECK(links.arena().open(Deadline::after(std::chrono::seconds(20))).is_ok());
      body(links, health);
    }));
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace hvd::testing
