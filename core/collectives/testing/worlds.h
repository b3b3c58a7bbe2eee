// SPDX-License-Identifier: Apache-2.0
// Worlds: the transports and numbers of ranks that tests of collectives run with, and the failure
// test that every algorithm has to pass.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/testing/run_ranks.h"
#include "transport/transport.h"

namespace hvd::testing {

struct World {
  TransportKind kind;
  int ranks;
};

// "Inproc5": for the name of a test.
std::string to_string(const World& world);

// Whether HVD_CONFORMANCE=full asks for all cases instead of a sample.
bool full_conformance();

// Every kind of transport with 1, 2, 3, 5 and 8 ranks; full: with 4, 7 and 16 as well.
std::vector<World> worlds();
// Small enough to fail each step of each rank: threads only, 2, 3 and 5 ranks; full: every kind
// and 8 ranks as well.
std::vector<World> worlds_to_break();

// Much longer than any step takes: a test that reaches it has failed.
inline Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

// Pseudo-random bytes, different for each seed and index.
std::vector<std::byte> pattern(size_t size, int seed);

// Lets each rank in turn die at each step that it takes in `collective`. Expects an error on every
// rank; the errors of the survivors name the dead rank. A barrier follows the collective, because a
// rank may finish before another one dies.
void expect_every_death_is_known(const World& world,
                                 const std::function<Status(Transport&)>& collective);

}  // namespace hvd::testing

// `Suite` becomes a suite with a World as its parameter; `list` is worlds() or worlds_to_break().
#define HVD_TEST_WORLDS(Suite, list)                                                       \
  class Suite : public ::testing::TestWithParam<::hvd::testing::World> {};                 \
  INSTANTIATE_TEST_SUITE_P(Over, Suite, ::testing::ValuesIn(list), [](const auto& world) { \
    return ::hvd::testing::to_string(world.param);                                         \
  })
