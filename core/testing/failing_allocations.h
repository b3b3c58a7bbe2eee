// SPDX-License-Identifier: Apache-2.0
// Makes allocations fail on chosen threads, as transport/testing/faults.h makes calls fail: a test
// counts the allocations of a run and then fails each one. A program that links this has its
// operators new and delete replaced.
#pragma once

#include <cstddef>
#include <string_view>

namespace hvd::testing {

// While it exists, allocations of victim threads are counted; one at a time.
class FailingAllocations {
 public:
  enum class Which {
    kNone,   // they are only counted
    kOne,    // allocation number `n`, from 0, throws bad_alloc
    kFromN,  // all from that one on do
  };
  FailingAllocations(Which which, size_t n);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  static size_t count();
  static bool has_failed();

  // Threads whose names begin so are victims.
  static constexpr std::string_view kVictimName = "victim";
};

// Makes this thread a victim while it exists.
class Victim {
 public:
  Victim();
  ~Victim();
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
};

}  // namespace hvd::testing
