// SPDX-License-Identifier: Apache-2.0
// A third kind of links, next to shared memory and sockets: queues within this process.
#include "transport/link_provider.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "net/rendezvous.h"
#include "net/secret.h"
#include "testing/assertions.h"
#include "transport/fabric.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;

Deadline soon() { return Deadline::after(20s); }

// One direction between two ranks: both ends of the link in one object.
class Queue final : public OutLink, public InLink {
 public:
  static constexpr size_t kCapacity = 10'000;  // less than a message, so that sends stay pending

  Result<size_t> write_some(ConstBytes out) override {
    const std::lock_guard lock(mutex_);
    const size_t count = std::min(out.size(), kCapacity - bytes_.size());
    bytes_.insert(bytes_.end(), out.begin(), out.begin() + static_cast<ptrdiff_t>(count));
    return count;
  }
  Result<size_t> read_some(Bytes in) override {
    const std::lock_guard lock(mutex_);
    const size_t count = std::min(in.size(), bytes_.size());
    std::copy_n(bytes_.begin(), count, in.begin());
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(count));
    read_ += count;
    return count;
  }
  // Of both bases, which have it from Sleeper.
  int descriptor() const override { return -1; }
  short events() const override { return 0; }
  void sleep(std::chrono::microseconds) override { std::this_thread::sleep_for(100us); }

  size_t bytes_read() const { return read_; }

 private:
  std::mutex mutex_;
  std::deque<std::byte> bytes_;
  std::atomic<size_t> read_{0};
};

// All queues of the process, by sender and receiver.
class Queues {
 public:
  Queue& between(int from, int to) {
    const std::lock_guard lock(mutex_);
    return queues_[{from, to}];
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, Queue> queues_;
};

// Reaches ranks below `limit` from ranks below it.
class QueueProvider final : public LinkProvider {
 public:
  QueueProvider(Queues& queues, int rank, int size, int limit)
      : queues_(queues), rank_(rank), size_(size), limit_(limit) {}

  bool reaches(int peer) const override { return rank_ < limit_ && peer < limit_; }
  Result<OutLink*> connect(int to, Deadline) override {
    EXPECT_TRUE(connected_.emplace(to, true).second) << "a link is looked up once";
    return &queues_.between(rank_, to);
  }
  std::vector<Arrival> arrivals() override {
    std::vector<Arrival> links;
    if (std::exchange(arrived_, true)) return links;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_ && reaches(peer)) links.push_back({peer, &queues_.between(peer, rank_)});
    }
    return links;
  }

 private:
  Queues& queues_;
  const int rank_;
  const int size_;
  const int limit_;
  bool arrived_ = false;
  std::map<int, bool> connected_;
};

// Three ranks as threads of this process, on hosts of those names. Queues reach ranks 0 and 1.
void run_three_ranks(const std::vector<std::string>& hosts, Queues& queues) {
  const int n = 3;
  const Secret secret = Secret::generate();
  RendezvousServerOptions server_options;
  server_options.bind = Endpoint::loopback();
  const auto server = RendezvousServer::start(secret, server_options);
  ASSERT_OK(server);
  const auto run = [&](int rank) -> Status {
    HVD_TRY_ASSIGN(const auto client,
                   RendezvousClient::connect((*server)->endpoint().to_string(), secret,
                                             /*tls=*/false, soon()));
    FabricOptions options;
    options.rank = rank;
    options.size = n;
    options.host_name = hosts[rank];
    options.interfaces = {"lo"};
    options.providers.push_back(
        [&](const CommunicatorContext& context) -> Result<std::unique_ptr<LinkProvider>> {
          EXPECT_EQ(context.rank, rank);
          EXPECT_EQ(context.topology.size(), n);
          return std::unique_ptr<LinkProvider>(
              std::make_unique<QueueProvider>(queues, context.rank, n, /*limit=*/2));
        });
    HVD_TRY_ASSIGN(const auto fabric, Fabric::join(options, secret, client.get(), soon()));
    std::vector<int> all(n);
    std::iota(all.begin(), all.end(), 0);
    HVD_TRY_ASSIGN(const auto transport, fabric->make_mesh(/*communicator=*/0, all, soon()));
    // Twice around the ring, so that no rank leaves before its neighbour is done.
    for (int i = 0; i < 2; ++i) {
      const std::vector<std::byte> out(100'000, static_cast<std::byte>(rank + i));
      std::vector<std::byte> in(out.size());
      const int from = (rank + n - 1) % n;
      HVD_TRY(transport->exchange((rank + 1) % n, out, from, in, soon()));
      EXPECT_EQ(in, std::vector<std::byte>(in.size(), static_cast<std::byte>(from + i)));
    }
    return Status::ok();
  };
  std::vector<Status> outcomes(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.push_back(
        start_thread("rank " + std::to_string(rank), [&, rank] { outcomes[rank] = run(rank); }));
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) EXPECT_OK(outcome);
}

TEST(LinkProvider, AThirdKindServesThePeersItReachesAndTheOtherKindsServeTheRest) {
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "a", "a"}, std::vector<std::string>{"a", "b", "c"}}) {
    Queues queues;
    run_three_ranks(hosts, queues);
    EXPECT_EQ(queues.between(0, 1).bytes_read(), 200'000u);
    EXPECT_EQ(queues.between(1, 2).bytes_read(), 0u);
    EXPECT_EQ(queues.between(2, 0).bytes_read(), 0u);
  }
}

}  // namespace
}  // namespace hvd
