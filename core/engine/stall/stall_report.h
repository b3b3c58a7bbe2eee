// SPDX-License-Identifier: Apache-2.0
// The stall report: which ranks have a tensor that waits, which ranks do not have it, what these
// ranks do instead, and whether they are slow, dead or diverged. It depends only on the reports of
// all ranks:
//
//   14 tensors have waited for 60 s or longer:
//     "a", "b", "c", "d", "e", "f", … (13 tensors, 75 s): ranks 0, 2 have them, ranks 1, 3-7 do not
//     "z" (61 s): rank 1 has it, ranks 0, 2-7 do not
//   What the ranks do that did not submit them:
//     rank 1 (host b): diverged: waiting for "z" (ranks 0, 2-7 did not submit it) while ranks 0, 2
//         wait for "a"; last submitted "z", last completed "y", inside synchronize; last submission
//         61 s ago
//     ranks 3-6 (host b): slow: still submitting other tensors; last submitted "q", …
//     rank 7 (host c): dead: no answer
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stall/rank_report.h"

namespace hvd {

struct StallTimes {
  double warning_seconds = 60;
  double shutdown_seconds = 0;  // 0: never
};

struct StallReport {
  std::string text;                  // one log message; empty when nothing stalls
  std::vector<std::string> expired;  // tensors that waited longer than the shutdown time, by name
};

// `reports` contains all ranks, in any order. No tensors are expected from ranks that have joined,
// but other ranks may be late for the join. Ranks that lack an expired tensor are marked with "!".
//
// Slow: the rank submits other tensors, or is silent but waits for no tensor that another rank
// lacks. Diverged: the rank has been silent for half the warning time, and waits for a tensor that
// another rank has not submitted, while that other rank waits for this rank. Dead: the rank did not
// answer.
StallReport make_stall_report(std::span<const RankReport> reports, StallTimes times);

// "rank 4", "ranks 1, 3-7"; `mark` is appended to each number.
std::string text_of_ranks(std::vector<int> ranks, std::string_view mark = {});

}  // namespace hvd
