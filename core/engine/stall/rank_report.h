// SPDX-License-Identifier: Apache-2.0
// The state of one rank when a tensor has waited too long: the input of stall_report.h. It travels
// up the tree in a message of kind kReports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/codec.h"

namespace hvd {

struct WaitingTensor {
  std::string name;
  double seconds = 0;  // since this rank submitted it
  bool operator==(const WaitingTensor&) const = default;
};

struct RankReport {
  // Most tensors in `waiting`; more are counted in `unlisted`. Names are cut to kLongestName
  // bytes.
  static constexpr size_t kMostWaiting = 4096;
  static constexpr size_t kLongestName = 4096;

  int32_t rank = 0;  // of the job
  std::string host;
  bool answered = false;  // false: all fields except rank and host are empty
  std::string last_submitted;
  std::string last_completed;
  std::string inside_call;  // "allreduce", "synchronize"; empty: outside of our calls
  double seconds_since_last_submission = 0;
  std::vector<WaitingTensor> waiting;  // oldest first
  uint32_t unlisted = 0;               // tensors that wait but are not in the list
  // Filled in by the coordinator, not sent: the rank has joined, so no tensors are expected from
  // it.
  bool joined = false;

  bool operator==(const RankReport&) const = default;
};

// Times are rounded to milliseconds; names and lists are cut to the limits above.
void encode(const RankReport& report, Encoder& out);
// Refuses bytes that encode() cannot have written.
Status decode(Decoder& in, RankReport& report);

}  // namespace hvd
