// SPDX-License-Identifier: Apache-2.0
// Runs n ranks as threads of a test, over any transport. Tests that take a TransportKind run over
// every kind of transport; a new one is one more kind and one function in run_ranks.cc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "transport/control/control_plane.h"
#include "transport/testing/faults.h"
#include "transport/transport.h"

namespace hvd::testing {

enum class TransportKind {
  kInproc,       // every rank on a host of its own
  kInprocHosts,  // the same, with a topology of two or three hosts of different sizes; fails if a
                 // rank changes sent memory too early (lending.h)
  kTcp,          // every rank on a host of its own, over TCP on loopback, with tags
  kShm,          // all ranks on one host, through shared memory
  kMesh,         // two or three hosts of different sizes: shared memory, and TCP without tags
};

const std::vector<TransportKind>& all_transport_kinds();
// "Inproc" for kInproc; valid in the name of a test.
std::string to_string(TransportKind kind);

// The hosts of the ranks, and whether the ranks of one host share memory.
Topology topology_of(TransportKind kind, int n);
bool hosts_share_memory(TransportKind kind, int n);

// Calls `body` for each rank on a thread of its own and returns the results by rank. All transports
// live until the last body has returned. A rank that fails aborts the communicator.
std::vector<Status> outcomes_of_ranks(TransportKind kind, int n,
                                      const std::function<Status(Transport&)>& body);

// The same with a control plane for each transport, which lives as long.
std::vector<Status> outcomes_of_members(
    TransportKind kind, int n, const std::function<Status(Transport&, ControlPlane&)>& body);

// As outcomes_of_ranks, with each rank behind a FaultyTransport that follows `plan`.
struct FaultyRun {
  std::vector<Status> outcomes;                 // by rank
  std::vector<size_t> steps;                    // by rank: number of steps, valid in Fault::step
  std::vector<std::vector<size_t>> send_steps;  // by rank: the steps that can be dropped
};
FaultyRun run_ranks_with_faults(TransportKind kind, int n, const std::vector<Fault>& plan,
                                const std::function<Status(Transport&)>& body);

void expect_all_ok(TransportKind kind, const std::vector<Status>& outcomes);
// Ok, or kAborted if an ASSERT of the running test has failed, so that other ranks do not wait.
Status assertions_so_far();

template <typename Body, typename... Args>
Status run_body(Body& body, Args&... args) {
  if constexpr (std::is_void_v<std::invoke_result_t<Body&, Args&...>>) {
    body(args...);
    return assertions_so_far();
  } else {
    return body(args...);
  }
}

// Expects that every rank succeeds: `body` either returns a Status or uses assertions. A failed
// rank is reported with its number.
template <typename Body>
void run_ranks(TransportKind kind, int n, Body body) {
  expect_all_ok(kind, outcomes_of_ranks(kind, n, [&](Transport& transport) {
                  return run_body(body, transport);
                }));
}

template <typename Body>
void run_members(TransportKind kind, int n, Body body) {
  expect_all_ok(kind,
                outcomes_of_members(kind, n, [&](Transport& transport, ControlPlane& control) {
                  return run_body(body, transport, control);
                }));
}

}  // namespace hvd::testing
