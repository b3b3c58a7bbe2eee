// SPDX-License-Identifier: Apache-2.0
// Time from the start of a job's processes until all are connected.
//
//   startup <ranks> <hosts> <rounds>
//
// Forks the ranks, which report themselves as spread over `hosts` hosts. Prints one JSON object
// with one figure per round, in milliseconds:
//   connected_ms  until the last rank has exchanged a message with its partners at all distances
//                 that are powers of two
//   store_ms …    how long each step took on its slowest rank
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "bench.h"
#include "net/rendezvous.h"
#include "net/secret.h"
#include "transport/fabric.h"

namespace hvd::bench {
namespace {

constexpr std::array<std::string_view, 4> kSteps = {"store", "join", "mesh", "exchange"};
// Milliseconds of each step of one rank, then the time from the start of the round until it was
// done.
using Report = std::array<double, kSteps.size() + 1>;

struct Job {
  int ranks;
  int hosts;
  Secret secret;
  Clock::time_point start;
};

// Reads all of `into`. False at the end of the pipe.
template <typename T>
bool read_from(int pipe, T& into) {
  return ::read(pipe, &into, sizeof(into)) == sizeof(into);
}

template <typename T>
void write_to(int pipe, const T& what) {
  if (::write(pipe, &what, sizeof(what)) != sizeof(what)) must(unavailable("a pipe has closed"));
}

void greet_partners(Transport& transport) {
  const int n = transport.size();
  for (int step = 1; step < n; step *= 2) {
    std::array<std::byte, 4> out{};
    std::array<std::byte, 4> in{};
    must(transport.exchange((transport.rank() + step) % n, out, (transport.rank() + n - step) % n,
                            in, patience()));
  }
}

void be_rank(const Job& job, int rank, uint16_t port, int reports, int stay) {
  Report report{};
  size_t step = 0;
  auto begin = Clock::now();
  const auto done = [&] {
    report[step++] = microseconds_since(begin) / 1000;
    begin = Clock::now();
  };
  const auto rendezvous =
      must(RendezvousClient::connect(std::vector{Endpoint::loopback(port)}, job.secret,
                                     /*tls=*/false, patience()));
  done();
  FabricOptions options;
  options.rank = rank;
  options.size = job.ranks;
  options.host_name = fmt::format("host{}", rank * job.hosts / job.ranks);
  options.interfaces = {"lo"};
  const auto fabric = must(Fabric::join(options, job.secret, rendezvous.get(), patience()));
  done();
  std::vector<int> all(job.ranks);
  std::iota(all.begin(), all.end(), 0);
  const auto transport = must(fabric->make_mesh(0, all, patience()));
  done();
  greet_partners(*transport);
  done();
  report.back() = microseconds_since(job.start) / 1000;
  write_to(reports, report);
  char end = 0;
  (void)read_from(stay, end);  // blocks until all ranks have reported
}

Report run_round(int ranks, int hosts) {
  std::array<int, 2> reports{};
  std::array<int, 2> ports{};
  std::array<int, 2> stay{};
  for (auto* pipe : {&reports, &ports, &stay}) {
    if (::pipe2(pipe->data(), O_CLOEXEC) != 0) must(io_error("pipe2", errno));
  }
  const Job job{ranks, hosts, Secret::generate(), Clock::now()};
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(::fork());
    if (children.back() < 0) must(io_error("fork", errno));
    if (children.back() > 0) continue;
    ::close(stay[1]);
    uint16_t port = 0;
    if (read_from(ports[0], port)) be_rank(job, rank, port, reports[1], stay[0]);
    std::_Exit(0);
  }
  // After the forks, because the server has threads and a process with threads must not fork.
  RendezvousServerOptions options;
  options.bind = Endpoint::loopback();
  const auto server = must(RendezvousServer::start(job.secret, options));
  for (int rank = 0; rank < ranks; ++rank) write_to(ports[1], server->endpoint().port());
  Report slowest{};
  for (int rank = 0; rank < ranks; ++rank) {
    Report report{};
    if (!read_from(reports[0], report)) must(unavailable("a rank has not reported"));
    for (size_t i = 0; i < report.size(); ++i) slowest[i] = std::max(slowest[i], report[i]);
  }
  ::close(stay[1]);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  for (const int fd : {reports[0], reports[1], ports[0], ports[1], stay[0]}) ::close(fd);
  return slowest;
}

void run(int ranks, int hosts, int rounds) {
  std::array<std::vector<double>, kSteps.size() + 1> columns;
  for (int round = 0; round < rounds; ++round) {
    const Report report = run_round(ranks, hosts);
    for (size_t i = 0; i < report.size(); ++i) columns[i].push_back(report[i]);
  }
  std::string steps;
  for (size_t i = 0; i < kSteps.size(); ++i) {
    steps += fmt::format("\"{}_ms\": {}, ", kSteps[i], json_list(columns[i]));
  }
  fmt::print(R"({{"ranks": {}, "hosts": {}, {}"connected_ms": {}}})"
             "\n",
             ranks, hosts, steps, json_list(columns.back()));
}

}  // namespace
}  // namespace hvd::bench

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: startup ranks hosts rounds\n");
    return 2;
  }
  hvd::bench::run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]));
  return 0;
}
