// SPDX-License-Identifier: Apache-2.0
#include "capi/testing/chaos_work.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace chaos {
namespace {

const char* to_string(hvd_collective collective) {
  switch (collective) {
    case HVD_ALLREDUCE: return "allreduce";
    case HVD_ALLGATHER: return "allgather";
    case HVD_BROADCAST: return "broadcast";
    case HVD_JOIN: return "join";
    case HVD_ALLTOALL: return "alltoall";
    case HVD_BARRIER: return "barrier";
    case HVD_REDUCESCATTER: return "reducescatter";
  }
  return "?";
}

float reduced(const Work& work, const Part& part, int64_t index) {
  float result = value(part, work.members[0], index);
  for (size_t m = 1; m < work.members.size(); ++m) {
    const float next = value(part, work.members[m], index);
    switch (work.op) {
      case HVD_MIN: result = std::min(result, next); break;
      case HVD_MAX: result = std::max(result, next); break;
      case HVD_PRODUCT: result *= next; break;
      default: result += next;
    }
  }
  return work.op == HVD_AVERAGE ? result / float(work.members.size()) : result;
}

// For an alltoall: the rows that member `from` sends to member `to`, and the rows before them.
std::pair<int64_t, int64_t> rows_between(const Part& part, size_t from, size_t to) {
  if (part.splits.empty()) {
    const int64_t each = part.rows[from] / int64_t(part.rows.size());
    return {each, each * int64_t(to)};
  }
  const auto& splits = part.splits[from];
  const auto first = splits.begin();
  return {splits[to], std::accumulate(first, first + int64_t(to), int64_t{0})};
}

}  // namespace

int64_t Dice::count() {
  if (one_in(12)) return 0;
  constexpr int64_t kMost[] = {8, 64, 1'000, 20'000, 200'000};
  return 1 + roll(kMost[roll(std::size(kMost))]);
}

std::string describe(const Work& work) {
  std::string text = to_string(work.collective);
  for (const Part& part : work.parts) text += " " + part.name;
  return text + " of set " + std::to_string(work.set);
}

float value(const Part& part, int rank, int64_t index) {
  return float((part.salt + rank * 17 + index * 7) % 61);
}

std::vector<float> expected(const Work& work, const Part& part, size_t me) {
  const int64_t count = part.rows[me] * part.columns;
  const auto ranks = int64_t(work.members.size());
  std::vector<float> all;
  switch (work.collective) {
    case HVD_ALLREDUCE:
      for (int64_t i = 0; i < count; ++i) all.push_back(reduced(work, part, i));
      break;
    case HVD_BROADCAST:
      for (int64_t i = 0; i < count; ++i) all.push_back(value(part, work.root, i));
      break;
    case HVD_ALLGATHER:
      for (size_t m = 0; m < work.members.size(); ++m) {
        for (int64_t i = 0; i < part.rows[m] * part.columns; ++i) {
          all.push_back(value(part, work.members[m], i));
        }
      }
      break;
    case HVD_ALLTOALL:
      for (size_t m = 0; m < work.members.size(); ++m) {
        const auto [rows, before] = rows_between(part, m, me);
        for (int64_t i = 0; i < rows * part.columns; ++i) {
          all.push_back(value(part, work.members[m], before * part.columns + i));
        }
      }
      break;
    case HVD_REDUCESCATTER: {
      const int64_t each = part.rows[me] / ranks;
      const int64_t more = part.rows[me] % ranks;
      const int64_t mine = each + (int64_t(me) < more ? 1 : 0);
      const int64_t before = each * int64_t(me) + std::min(int64_t(me), more);
      for (int64_t i = 0; i < mine * part.columns; ++i) {
        all.push_back(reduced(work, part, before * part.columns + i));
      }
      break;
    }
    case HVD_JOIN:
    case HVD_BARRIER: break;
  }
  return all;
}

}  // namespace chaos
