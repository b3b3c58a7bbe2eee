// SPDX-License-Identifier: Apache-2.0
// The ranks of one host as threads, each with the objects that its process would have.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "transport/health.h"
#include "transport/shm/shm_group.h"

namespace hvd::testing {

// A LifelineHolder and its thread.
class LifelineThread {
 public:
  LifelineThread() {
    thread_ = start_thread("lifelines", [this] {
      lifelines_.install_on_this_thread();
      std::unique_lock lock(mutex_);
      installed_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return stop_; });
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return installed_; });
  }
  ~LifelineThread() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  LifelineHolder& lifelines() { return lifelines_; }

 private:
  LifelineHolder lifelines_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool installed_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// Runs `body(links, health)` on `ranks` threads that share a segment of `kind`.
template <typename Body>
void run_host(int ranks, SegmentKind kind, Body body) {
  auto first = Segment::create(kind, ShmGroup::bytes_needed(ranks));
  HVD_CHECK(first.is_ok());
  const std::string descriptor = (*first)->descriptor();
  std::vector<int> job_ranks(ranks);
  std::iota(job_ranks.begin(), job_ranks.end(), 0);
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    threads.push_back(start_thread("rank" + std::to_string(rank), [&, rank] {
      LifelineThread lifelines;
      Health health;
      auto segment = Segment::attach(descriptor);
      HVD_CHECK(segment.is_ok());
      ShmGroup links(std::move(*segment), rank, job_ranks, lifelines.lifelines(), health);
      HVD_CHECK(links.arena().open(Deadline::after(std::chrono::seconds(20))).is_ok());
      body(links, health);
    }));
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace hvd::testing
