// SPDX-License-Identifier: Apache-2.0
// float32 Sum allreduce of this project and of Open MPI, alternating in the same processes on one
// host.
//
//   mpirun -np 2 allreduce_peers <rounds> <bytes>…
//
// Prints one JSON object per size:
//   openmpi, ours, shared  time per operation in microseconds, one figure per round: the mean of a
//                          batch on its slowest rank. `shared` is ours with the buffers in shared
//                          memory.
//   probe_ns               one-way latency of a cache line between ranks 0 and 1, in nanoseconds,
//                          before each round, with at most 2 ranks. It changes within seconds on a
//                          virtual machine, and all other figures change with it.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "bench.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/shared_memory.h"
#include "collectives/testing/shared_buffer_allreduce.h"
#include "net/rendezvous.h"
#include "net/secret.h"
#include "transport/fabric.h"
#include "transport/shm/arena.h"
#include "transport/testing/shared_buffer.h"

namespace hvd::bench {
namespace {

constexpr size_t kLargest = size_t{64} << 20;  // larger sizes on the command line become this

// The MPI processes as a job of this project. Rank 0 runs the rendezvous server. Destroyed in
// reverse order: the transport before the fabric.
struct Job {
  int rank = 0;
  int size = 1;
  std::unique_ptr<RendezvousServer> server;
  std::unique_ptr<RendezvousClient> client;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<SharedBuffer> shared;
};

// `text` of rank 0, at most 255 characters, on every rank.
std::string broadcast_text(const std::string& text) {
  std::array<char, 256> buffer{};
  text.copy(buffer.data(), buffer.size() - 1);
  MPI_Bcast(buffer.data(), buffer.size(), MPI_CHAR, 0, MPI_COMM_WORLD);
  return buffer.data();
}

Job join() {
  Job job;
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.size);
  Secret secret = Secret::generate();
  secret = must(Secret::from_base64(broadcast_text(secret.to_base64())));
  if (job.rank == 0) {
    RendezvousServerOptions options;
    options.bind = Endpoint::loopback();
    job.server = must(RendezvousServer::start(secret, options));
  }
  const std::string where = broadcast_text(job.rank == 0 ? job.server->endpoint().to_string() : "");
  job.client = must(RendezvousClient::connect(where, secret, /*tls=*/false, patience()));
  FabricOptions options;
  options.rank = job.rank;
  options.size = job.size;
  job.fabric = must(Fabric::join(options, secret, job.client.get(), patience()));
  std::vector<int> all(job.size);
  std::iota(all.begin(), all.end(), 0);
  job.transport = must(job.fabric->make_mesh(0, all, patience()));
  if (job.transport->arena() == nullptr) must(unavailable("no shared memory: nothing to compare"));
  job.shared =
      must(make_shared_buffer(*job.transport->arena(), kLargest, SegmentKind::kMemfd, patience()));
  return job;
}

// One-way latency of a cache line between ranks 0 and 1, in nanoseconds.
double probe(const Job& job) {
  constexpr int kRoundTrips = 2000;
  auto& ping = *reinterpret_cast<std::atomic<int>*>(job.shared->part(0).data());
  auto& pong = *reinterpret_cast<std::atomic<int>*>(job.shared->part(1).data());
  if (job.rank == 0) ping = 0;
  if (job.rank == 1) pong = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = Clock::now();
  for (int i = 1; i <= kRoundTrips && job.rank < 2; ++i) {
    auto& mine = job.rank == 0 ? ping : pong;
    const auto& theirs = job.rank == 0 ? pong : ping;
    if (job.rank == 0) mine.store(i, std::memory_order_release);
    while (theirs.load(std::memory_order_acquire) < i) {
    }
    if (job.rank == 1) mine.store(i, std::memory_order_release);
  }
  const double nanoseconds = microseconds_since(start) * 1e3 / (2 * kRoundTrips);
  MPI_Barrier(MPI_COMM_WORLD);
  return nanoseconds;
}

// Microseconds per call on the slowest rank, after up to 3 calls that do not count.
double time_batch(int calls, const std::function<void()>& call) {
  for (int i = 0; i < std::min(calls, 3); ++i) call();
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  double mine = microseconds_since(start) / calls;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

// About 48 MiB per batch, but at least 4 and at most 4000 calls.
void compare(Job& job, size_t bytes, int rounds) {
  const int count = static_cast<int>(bytes / sizeof(float));
  const int calls =
      static_cast<int>(std::clamp<size_t>((size_t{48} << 20) / (bytes + 2048), 4, 4000));
  std::vector<float> data(count, 0.0F);
  const auto reduction = must(Reduction::make(ReduceOp::kSum, DType::kFloat32, job.size));
  const auto selector =
      must(AllreduceSelector::make(job.transport->topology(), job.transport->hosts_share_memory(),
                                   {}, offered_allreduce_algorithms()));
  Scratch scratch;
  std::vector<double> mpi;
  std::vector<double> ours;
  std::vector<double> shared;
  std::vector<double> latency;
  for (int round = 0; round < rounds; ++round) {
    if (job.size <= 2) latency.push_back(probe(job));
    mpi.push_back(time_batch(calls, [&] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }));
    ours.push_back(time_batch(calls, [&] {
      must(run_allreduce({*job.transport, scratch, patience()}, selector.choose(bytes),
                         std::as_writable_bytes(std::span(data)), reduction));
    }));
    shared.push_back(time_batch(calls, [&] {
      must(shared_buffer_allreduce(*job.transport->arena(), *job.shared, bytes, reduction,
                                   patience()));
    }));
  }
  if (job.rank != 0) return;
  fmt::print(
      R"({{"ranks": {}, "bytes": {}, "openmpi": {}, "ours": {}, "shared": {}, "probe_ns": {}}})"
      "\n",
      job.size, bytes, json_list(mpi), json_list(ours), json_list(shared), json_list(latency));
  std::fflush(stdout);
}

}  // namespace
}  // namespace hvd::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 0;
  {
    hvd::bench::Job job = hvd::bench::join();
    for (int i = 2; i < argc; ++i) {
      const size_t bytes = std::min<size_t>(std::stoul(argv[i]), hvd::bench::kLargest);
      hvd::bench::compare(job, bytes, rounds);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    job.transport.reset();
    job.shared.reset();
    job.fabric.reset();
  }
  MPI_Finalize();
  return 0;
}
