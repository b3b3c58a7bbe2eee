// SPDX-License-Identifier: Apache-2.0
// The stall report: who has a tensor that waits, who does not, what those do instead, and whether
// they are slow, dead or diverged. Facts in, text out:
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
  std::vector<std::string> expired;  // wait longer than the shutdown time, in order of names
};

// `reports` are of all ranks, in any order. From those that have joined no tensors are expected,
// but others may be late for the join. Ranks that are missing for an expired tensor are marked with
// "!".
//
// Slow: submits other things, or is silent but waits for nothing that others lack. Diverged: has
// been silent for half the warning time and waits itself for a tensor that one of those who wait
// for it did not submit. Dead: did not answer.
StallReport make_stall_report(std::span<const RankReport> reports, StallTimes times);

// "rank 4", "ranks 1, 3-7"; `mark` stands behind each number.
std::string text_of_ranks(std::vector<int> ranks, std::string_view mark = {});

}  // namespace hvd
