// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine, so that a seed that fails on one machine fails
// on all. The distributions of the standard library differ between implementations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace hvd::simulator {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // A sequence that depends only on the seed and the keys. Several ranks make the same choice with
  // it without storing the choice.
  Random(uint64_t seed, std::initializer_list<uint64_t> keys) : state_(seed) {
    for (const uint64_t key : keys) state_ = next() ^ key;
  }

  // SplitMix64: passes the usual tests of randomness, and every state is valid.
  uint64_t next() {
    uint64_t mixed = (state_ += 0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  // From 0 to `end` - 1; `end` is from 1 to 2^32.
  int64_t below(int64_t end) {
    return static_cast<int64_t>((next() >> 32) * static_cast<uint64_t>(end) >> 32);
  }
  int between(int least, int most) { return least + static_cast<int>(below(most - least + 1)); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace hvd::simulator
