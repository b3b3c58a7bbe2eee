// SPDX-License-Identifier: Apache-2.0
// What one rank says about itself when some tensor has waited too long: the facts from which
// stall_report.h draws its conclusions.
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
  // More would only make a long list longer; how many there are is still told.
  static constexpr size_t kMostWaiting = 4096;
  static constexpr size_t kLongestName = 4096;

  int32_t rank = 0;  // of the job
  std::string host;
  bool answered = false;  // if not, only rank and host are known
  std::string last_submitted;
  std::string last_completed;
  std::string inside_call;  // "allreduce", "synchronize"; empty: outside of our calls
  double seconds_since_last_submission = 0;
  std::vector<WaitingTensor> waiting;  // oldest first
  uint32_t unlisted = 0;               // that wait too, but are not in the list
  // What the coordinator knows of it, and the rank does not tell: nothing but the end of its join
  // is expected from it.
  bool joined = false;

  bool operator==(const RankReport&) const = default;
};

// Times are rounded to milliseconds; names and lists are cut to the limits above.
void encode(const RankReport& report, Encoder& out);
// Refuses what encode() does not write.
Status decode(Decoder& in, RankReport& report);

}  // namespace hvd
