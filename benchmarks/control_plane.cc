// SPDX-License-Identifier: Apache-2.0
// The messages and bytes with which ranks agree on an unchanged step. Counted, not timed.
//
//   control_plane
//
// All ranks of a job are objects in this process and deliver their messages directly. Prints one
// JSON object for each number of ranks and of ranks per host:
//   messages, bytes  per step and rank, sent and received: [largest, mean]
//   hops             between the coordinator and the rank furthest from it
#include <algorithm>
#include <memory>
#include <numeric>

#include "bench.h"
#include "engine/negotiator.h"

namespace hvd::bench {
namespace {

constexpr int kMostRanks = 4096;
constexpr int kTensors = 32;
constexpr int kStepsBefore = 2;  // not counted: the first step sends names, later ones numbers

Topology hosts_of(int ranks, int per_host) {
  std::vector<int> host_of(ranks);
  for (int rank = 0; rank < ranks; ++rank) host_of[rank] = rank / per_host;
  return Topology(host_of);
}

class Job {
 public:
  Job(int ranks, int per_host) : messages_(ranks), bytes_(ranks), depth_(ranks) {
    const Topology topology = hosts_of(ranks, per_host);
    for (int rank = 0; rank < ranks; ++rank) {
      NegotiatorOptions options = NegotiatorOptions::in_tree(rank, topology);
      // A parent has a lower rank than its children, because ranks are numbered host by host.
      if (options.parent >= 0) depth_[rank] = depth_[options.parent] + 1;
      ranks_.push_back(std::make_unique<Negotiator>(std::move(options)));
    }
  }

  // One step of kTensors tensors: announcements up the tree, a decision, and the plan down the
  // tree.
  void step() {
    std::fill(messages_.begin(), messages_.end(), 0);
    std::fill(bytes_.begin(), bytes_.end(), 0);
    Request request;
    request.shape = {1024};
    for (int tensor = 0; tensor < kTensors; ++tensor) {
      request.name = fmt::format("layer{}/gradient", tensor);
      for (auto& rank : ranks_) rank->announce(request);
    }
    for (int rank = size() - 1; rank >= 0; --rank) flush_to_neighbours(rank);
    ranks_[0]->decide();
    Plan plan;
    for (int rank = 0; rank < size(); ++rank) {
      flush_to_neighbours(rank);
      if (!ranks_[rank]->next_plan(plan) || plan.responses.size() != kTensors) {
        must(internal_error("an unchanged step has to be one plan"));
      }
    }
  }

  void print(int per_host) const {
    fmt::print(R"({{"ranks": {}, "per_host": {}, "messages": [{}, {:.2f}], "bytes": [{}, {:.1f}], )"
               R"("hops": {}}})"
               "\n",
               size(), per_host, most(messages_), mean(messages_), most(bytes_), mean(bytes_),
               most(depth_));
  }

 private:
  int size() const { return static_cast<int>(ranks_.size()); }
  static int64_t most(const std::vector<int64_t>& values) {
    return *std::max_element(values.begin(), values.end());
  }
  static double mean(const std::vector<int64_t>& values) {
    return static_cast<double>(std::accumulate(values.begin(), values.end(), int64_t{0})) /
           static_cast<double>(values.size());
  }

  void flush_to_neighbours(int rank) {
    must(ranks_[rank]->flush([&](int to, ConstBytes message, Urgency) {
      for (const int end : {rank, to}) {
        ++messages_[end];
        bytes_[end] += static_cast<int64_t>(message.size());
      }
      return ranks_[to]->receive(rank, message);
    }));
  }

  std::vector<std::unique_ptr<Negotiator>> ranks_;
  // By rank, of the last step; depth_ in hops below the coordinator.
  std::vector<int64_t> messages_;
  std::vector<int64_t> bytes_;
  std::vector<int64_t> depth_;
};

void count() {
  for (const int per_host : {1, 8}) {
    for (int ranks = 2; ranks <= kMostRanks; ranks *= 2) {
      Job job(ranks, per_host);
      for (int before = 0; before < kStepsBefore; ++before) job.step();
      job.step();
      job.print(per_host);
    }
  }
}

}  // namespace
}  // namespace hvd::bench

int main() {
  hvd::bench::count();
  return 0;
}
