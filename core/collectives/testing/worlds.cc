// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/worlds.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "collectives/barrier/barrier.h"

namespace hvd::testing {
namespace {

std::vector<World> cross(const std::vector<TransportKind>& kinds, const std::vector<int>& sizes) {
  std::vector<World> all;
  for (const TransportKind kind : kinds) {
    for (const int ranks : sizes) all.push_back({kind, ranks});
  }
  return all;
}

}  // namespace

std::string to_string(const World& world) {
  return to_string(world.kind) + std::to_string(world.ranks);
}

bool full_conformance() {
  const char* wish = std::getenv("HVD_CONFORMANCE");
  return wish != nullptr && std::string_view(wish) == "full";
}

std::vector<World> worlds() {
  return cross(all_transport_kinds(), full_conformance() ? std::vector<int>{1, 2, 3, 4, 5, 7, 8, 16}
                                                         : std::vector<int>{1, 2, 3, 5, 8});
}

std::vector<World> worlds_to_break() {
  if (full_conformance()) return cross(all_transport_kinds(), {2, 3, 5, 8});
  return cross({TransportKind::kInproc, TransportKind::kInprocHosts}, {2, 3, 5});
}

std::vector<std::byte> pattern(size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  uint32_t state = 2654435761U * static_cast<uint32_t>(seed + 1);
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

void expect_every_death_is_known(const World& world,
                                 const std::function<Status(Transport&)>& collective) {
  const FaultyRun calm = run_ranks_with_faults(world.kind, world.ranks, {}, collective);
  for (const Status& outcome : calm.outcomes) ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
  const auto then_meet = [&](Transport& transport) -> Status {
    HVD_TRY(collective(transport));
    Scratch scratch;
    return barrier({transport, scratch, soon()});
  };
  for (int victim = 0; victim < world.ranks; ++victim) {
    for (size_t step = 0; step < calm.steps[victim]; ++step) {
      const FaultyRun run = run_ranks_with_faults(world.kind, world.ranks,
                                                  {{.rank = victim, .step = step}}, then_meet);
      for (int rank = 0; rank < world.ranks; ++rank) {
        const Status& outcome = run.outcomes[rank];
        const bool known =
            rank == victim ? outcome.code() == StatusCode::kAborted : outcome.lost_rank() == victim;
        EXPECT_TRUE(known) << "rank " << rank << " when rank " << victim << " dies at step " << step
                           << ": " << outcome.to_string();
      }
    }
  }
}

}  // namespace hvd::testing
