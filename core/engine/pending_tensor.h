// SPDX-License-Identifier: Apache-2.0
// What the two halves of the negotiator share: a tensor that some ranks have and others not yet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/negotiator.h"

namespace hvd {

// What the ranks of one or more parties ask for under one name.
struct Negotiator::Merged {
  Request request;
  int rank = 0;  // one of those who asked for just that, a rank of the set
  struct FirstDimension {
    int rank;
    int64_t rows;
  };
  std::vector<FirstDimension> first_dimensions;  // of an allgather: of all ranks of the parties
  Status conflict;                               // they do not agree
};

// A tensor that some of the parties have.
struct PendingTensor {
  Negotiator::Parties arrived = 0;
  bool complete = false;   // everybody here has it, and it has been put among complete_
  bool announced = false;  // and the parent has been told
  uint32_t group = 0;
  void* user_data = nullptr;
  ResponseCache::Entry* cached = nullptr;      // whose number all arrivals so far have used
  std::unique_ptr<Negotiator::Merged> merged;  // once one of them has not
};

}  // namespace hvd
