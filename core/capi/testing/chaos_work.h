// SPDX-License-Identifier: Apache-2.0
// The operations of hvd_chaos_rank and the expected results of each rank. All ranks draw the same
// work from the same seed, so that each rank can compute the inputs of the other ranks.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "capi/hvd.h"

namespace chaos {

// Random numbers that are the same on every platform; the distributions of <random> differ between
// libraries.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // From 0 to `below` - 1.
  int64_t roll(int64_t below) { return int64_t(engine_() % uint64_t(below)); }
  bool one_in(int64_t chances) { return roll(chances) == 0; }
  // From 1 to 200,000, small numbers as often as large ones; one in twelve is 0.
  int64_t count();

 private:
  std::mt19937_64 engine_;
};

// One tensor of an operation.
struct Part {
  std::string name;
  // For each member of the set, in its order: the rows of its input.
  std::vector<int64_t> rows;
  int64_t columns = 1;
  // For an alltoall, for each member: rows for each other member; empty for equal parts.
  std::vector<std::vector<int32_t>> splits;
  int64_t salt = 0;
};

// One operation.
struct Work {
  hvd_collective collective = HVD_ALLREDUCE;
  hvd_reduce_op op = HVD_SUM;
  int root = 0;
  int set = HVD_GLOBAL_SET;
  std::vector<int> members;
  std::vector<Part> parts;
};

// For messages: "allreduce t.1.0 of set 0".
std::string describe(const Work& work);

// Element `index` of the input of `rank`. Whole numbers below 61: sums, products and averages of up
// to 4 ranks are exact in a float.
float value(const Part& part, int rank, int64_t index);

// The expected result of member `me` of the set. Empty for a barrier and a join.
std::vector<float> expected(const Work& work, const Part& part, size_t me);

}  // namespace chaos
