// SPDX-License-Identifier: Apache-2.0
#include "transport/testing/run_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <numeric>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "net/rendezvous.h"
#include "net/secret.h"
#include "transport/fabric.h"
#include "transport/testing/inproc.h"
#include "transport/testing/lending.h"

namespace hvd::testing {
namespace {

// Makes the transport of one rank. Called once per rank, on the thread of the rank, so that it may
// wait for the other ranks.
using Connect = std::function<Result<std::unique_ptr<Transport>>(int rank)>;
// The same for the control plane over a transport that `connect` made.
using Control =
    std::function<Result<std::unique_ptr<ControlPlane>>(int rank, Transport& transport)>;

struct World {
  Connect connect;
  Control control;
};

World inproc_world(const std::vector<int>& host_of) {
  auto hub = std::make_shared<InprocHub>(Topology(host_of));
  World world;
  world.connect = [hub](int rank) { return hub->transport(rank); };
  world.control = [hub](int rank, Transport&) { return hub->control(rank); };
  return world;
}

// The same, and fails if a rank changes sent memory too early.
World lending_world(const std::vector<int>& host_of) {
  World world = inproc_world(host_of);
  auto ledger = std::make_shared<LendingLedger>(static_cast<int>(host_of.size()));
  world.connect = [connect = world.connect,
                   ledger](int rank) -> Result<std::unique_ptr<Transport>> {
    HVD_TRY_ASSIGN(std::unique_ptr<Transport> inner, connect(rank));
    return std::unique_ptr<Transport>(std::make_unique<LendingTransport>(std::move(inner), ledger));
  };
  return world;
}

// Hosts of different sizes, and ranks not in the order of their hosts: 0 1 1 0 2 0 1 1 0 2 …
std::vector<int> uneven_hosts(int n) {
  constexpr int kDeal[] = {0, 1, 1, 0, 2};
  std::vector<int> host_of;
  for (int rank = 0; rank < n; ++rank) host_of.push_back(kDeal[rank % 5]);
  return host_of;
}

// A job over the loopback interface, with its own rendezvous server. Hosts differ only by name.
struct FabricWorld {
  Secret secret = Secret::generate();
  std::unique_ptr<RendezvousServer> rendezvous;
  std::vector<std::unique_ptr<RendezvousClient>> clients;
  std::vector<std::unique_ptr<Fabric>> fabrics;
};

World fabric_world(const std::vector<int>& host_of, bool tags) {
  const auto n = static_cast<int>(host_of.size());
  auto world = std::make_shared<FabricWorld>();
  RendezvousServerOptions options;
  options.bind = Endpoint::loopback();
  auto rendezvous = RendezvousServer::start(world->secret, options);
  HVD_CHECK(rendezvous.is_ok());
  world->rendezvous = std::move(rendezvous).value();
  world->clients.resize(n);
  world->fabrics.resize(n);
  World made;
  made.connect = [world, host_of, tags](int rank) -> Result<std::unique_ptr<Transport>> {
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    HVD_TRY_ASSIGN(world->clients[rank],
                   RendezvousClient::connect(std::vector<Endpoint>{world->rendezvous->endpoint()},
                                             world->secret, /*tls=*/false, deadline));
    FabricOptions mine;
    mine.rank = rank;
    mine.size = static_cast<int>(host_of.size());
    mine.host_name = "host" + std::to_string(host_of[rank]);
    mine.interfaces = {"lo"};
    mine.tags = tags;
    HVD_TRY_ASSIGN(world->fabrics[rank],
                   Fabric::join(mine, world->secret, world->clients[rank].get(), deadline));
    std::vector<int> all(host_of.size());
    std::iota(all.begin(), all.end(), 0);
    return world->fabrics[rank]->make_mesh(/*communicator=*/0, all, deadline);
  };
  made.control = [world](int rank, Transport& transport) {
    return world->fabrics[rank]->make_control(/*communicator=*/0, transport,
                                              Deadline::after(std::chrono::seconds(30)));
  };
  return made;
}

World tagged_world(const std::vector<int>& host_of) { return fabric_world(host_of, true); }
World bare_world(const std::vector<int>& host_of) { return fabric_world(host_of, false); }

std::vector<int> own_hosts(int n) {
  std::vector<int> host_of(n);
  std::iota(host_of.begin(), host_of.end(), 0);
  return host_of;
}

std::vector<int> one_host(int n) { return std::vector<int>(n, 0); }

struct Kind {
  TransportKind kind;
  const char* name;
  std::vector<int> (*host_of)(int n);
  bool has_memory;
  World (*make_world)(const std::vector<int>& host_of);
};
constexpr Kind kKinds[] = {
    {TransportKind::kInproc, "Inproc", own_hosts, false, inproc_world},
    {TransportKind::kInprocHosts, "InprocHosts", uneven_hosts, false, lending_world},
    {TransportKind::kTcp, "Tcp", own_hosts, true, tagged_world},
    {TransportKind::kShm, "Shm", one_host, true, bare_world},
    {TransportKind::kMesh, "Mesh", uneven_hosts, true, bare_world},
};

const Kind& find(TransportKind kind) {
  for (const Kind& known : kKinds) {
    if (known.kind == kind) return known;
  }
  check_failed(__FILE__, __LINE__, "transport kind without a row in kKinds");
}

// `ranks` receives the transports, which live until every body has returned.
std::vector<Status> run(const Connect& connect, std::vector<std::unique_ptr<Transport>>& ranks,
                        const std::function<Status(Transport&)>& body) {
  std::vector<Status> outcomes(ranks.size());
  std::vector<std::thread> threads;
  // No body starts before all ranks are connected: faults are for the body, and the other ranks
  // would wait at the rendezvous server for a rank that died early.
  std::latch connected_all(static_cast<std::ptrdiff_t>(ranks.size()));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.push_back(start_thread("rank " + std::to_string(rank), [&, rank] {
      auto connected = connect(static_cast<int>(rank));
      connected_all.arrive_and_wait();
      if (!connected.is_ok()) {
        outcomes[rank] = connected.status().with_context("connect");
        return;
      }
      ranks[rank] = std::move(connected).value();
      outcomes[rank] = body(*ranks[rank]);
      if (!outcomes[rank].is_ok()) ranks[rank]->abort(outcomes[rank]);
    }));
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace

const std::vector<TransportKind>& all_transport_kinds() {
  static const std::vector<TransportKind> kinds = [] {
    std::vector<TransportKind> all;
    for (const Kind& known : kKinds) all.push_back(known.kind);
    return all;
  }();
  return kinds;
}

std::string to_string(TransportKind kind) { return find(kind).name; }

Topology topology_of(TransportKind kind, int n) { return Topology(find(kind).host_of(n)); }

bool hosts_share_memory(TransportKind kind, int n) {
  return find(kind).has_memory && topology_of(kind, n).largest_host() > 1;
}

std::vector<Status> outcomes_of_ranks(TransportKind kind, int n,
                                      const std::function<Status(Transport&)>& body) {
  const Kind& known = find(kind);
  const World world = known.make_world(known.host_of(n));
  std::vector<std::unique_ptr<Transport>> ranks(n);
  return run(world.connect, ranks, body);
}

std::vector<Status> outcomes_of_members(
    TransportKind kind, int n, const std::function<Status(Transport&, ControlPlane&)>& body) {
  const Kind& known = find(kind);
  const World world = known.make_world(known.host_of(n));
  std::vector<std::unique_ptr<Transport>> ranks(n);
  std::vector<std::unique_ptr<ControlPlane>> controls(n);
  return run(world.connect, ranks, [&](Transport& transport) -> Status {
    HVD_TRY_ASSIGN(controls[transport.rank()], world.control(transport.rank(), transport));
    return body(transport, *controls[transport.rank()]);
  });
}

FaultyRun run_ranks_with_faults(TransportKind kind, int n, const std::vector<Fault>& plan,
                                const std::function<Status(Transport&)>& body) {
  const Kind& known = find(kind);
  const Connect connect = known.make_world(known.host_of(n)).connect;
  std::vector<FaultyTransport*> faulty(n);
  std::vector<std::unique_ptr<Transport>> ranks(n);
  const Connect connect_faulty = [&](int rank) -> Result<std::unique_ptr<Transport>> {
    HVD_TRY_ASSIGN(std::unique_ptr<Transport> inner, connect(rank));
    auto outer = std::make_unique<FaultyTransport>(std::move(inner), plan);
    faulty[rank] = outer.get();
    return std::unique_ptr<Transport>(std::move(outer));
  };
  FaultyRun result;
  result.outcomes = run(connect_faulty, ranks, body);
  for (const FaultyTransport* rank : faulty) {
    result.steps.push_back(rank == nullptr ? 0 : rank->steps());
    result.send_steps.push_back(rank == nullptr ? std::vector<size_t>{} : rank->send_steps());
  }
  return result;
}

void expect_all_ok(TransportKind kind, const std::vector<Status>& outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank].is_ok()) << "rank " << rank << " of " << outcomes.size() << " over "
                                        << to_string(kind) << ": " << outcomes[rank].to_string();
  }
}

Status assertions_so_far() {
  if (!::testing::Test::HasFatalFailure()) return Status::ok();
  return aborted("an assertion of the test failed");
}

}  // namespace hvd::testing
