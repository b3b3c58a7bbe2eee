// SPDX-License-Identifier: Apache-2.0
// FailingAllocations: makes allocations fail on chosen threads ("victims"), as transport/faults.h
// makes calls of a transport fail. A test counts the allocations of a run and then repeats the run
// with each one failing. Linking this file replaces operators new and delete of the whole program.
#pragma once

#include <cstddef>
#include <string_view>

namespace hvd::testing {

// Counts the allocations of victim threads while it exists. Only one may exist at a time. The
// static functions are safe from any thread.
class FailingAllocations {
 public:
  enum class Which {
    kNone,   // count only
    kOne,    // the 0-based allocation `n` fails (bad_alloc, or null for nothrow)
    kFromN,  // allocation `n` and all later ones fail
  };
  FailingAllocations(Which which, size_t n);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  // Allocations of victim threads since construction, and whether one of them failed.
  static size_t count();
  static bool has_failed();

  // Threads whose names begin with this are victims.
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
