// SPDX-License-Identifier: Apache-2.0
#include "engine/stall/rank_report.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace hvd {
namespace {

constexpr uint64_t kMostMilliseconds = uint64_t{1} << 40;  // 35 years

void put_seconds(Encoder& out, double seconds) {
  const double milliseconds = std::isnan(seconds) ? 0 : std::round(seconds * 1000);
  out.put(
      static_cast<uint64_t>(std::clamp(milliseconds, 0.0, static_cast<double>(kMostMilliseconds))));
}

Status get_seconds(Decoder& in, double& seconds) {
  uint64_t milliseconds = 0;
  HVD_TRY(in.get(milliseconds));
  if (milliseconds > kMostMilliseconds) return invalid_argument("stall report: impossible time");
  seconds = static_cast<double>(milliseconds) / 1000;
  return Status::ok();
}

void put_name(Encoder& out, std::string_view name) {
  out.put(name.substr(0, RankReport::kLongestName));
}

Status get_name(Decoder& in, std::string& name) {
  std::string_view text;
  HVD_TRY(in.get(text));
  if (text.size() > RankReport::kLongestName) {
    return invalid_argument("stall report: a name is too long");
  }
  name = text;
  return Status::ok();
}

}  // namespace

void encode(const RankReport& report, Encoder& out) {
  out.put(report.rank);
  put_name(out, report.host);
  out.put(report.answered);
  put_name(out, report.last_submitted);
  put_name(out, report.last_completed);
  put_name(out, report.inside_call);
  put_seconds(out, report.seconds_since_last_submission);
  const size_t listed = std::min(report.waiting.size(), RankReport::kMostWaiting);
  out.put(static_cast<uint32_t>(listed));
  for (size_t i = 0; i < listed; ++i) {
    put_name(out, report.waiting[i].name);
    put_seconds(out, report.waiting[i].seconds);
  }
  out.put(report.unlisted + static_cast<uint32_t>(report.waiting.size() - listed));
}

Status decode(Decoder& in, RankReport& report) {
  HVD_TRY(in.get(report.rank));
  if (report.rank < 0) return invalid_argument("stall report: no rank has a negative number");
  HVD_TRY(get_name(in, report.host));
  HVD_TRY(in.get(report.answered));
  HVD_TRY(get_name(in, report.last_submitted));
  HVD_TRY(get_name(in, report.last_completed));
  HVD_TRY(get_name(in, report.inside_call));
  HVD_TRY(get_seconds(in, report.seconds_since_last_submission));
  uint32_t listed = 0;
  HVD_TRY(in.get(listed));
  if (listed > RankReport::kMostWaiting) {
    return invalid_argument("stall report: the list of tensors is too long");
  }
  report.waiting.clear();
  for (uint32_t i = 0; i < listed; ++i) {
    WaitingTensor& tensor = report.waiting.emplace_back();
    HVD_TRY(get_name(in, tensor.name));
    HVD_TRY(get_seconds(in, tensor.seconds));
  }
  return in.get(report.unlisted);
}

}  // namespace hvd
