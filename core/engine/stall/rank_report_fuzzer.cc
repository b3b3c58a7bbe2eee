// SPDX-License-Identifier: Apache-2.0
// Any bytes: what can be read at all is written again as the same bytes.
#include "engine/stall/rank_report.h"
#include "engine/stall/stall_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  const ConstBytes input = std::as_bytes(std::span(data, size));
  Decoder decoder(input);
  std::vector<RankReport> reports;
  while (decoder.remaining() > 0) {
    RankReport report;
    if (!decode(decoder, report).is_ok()) break;
    reports.push_back(std::move(report));
  }
  Encoder again;
  for (const RankReport& report : reports) encode(report, again);
  HVD_CHECK(text_of(input).starts_with(text_of(again.bytes())));
  (void)make_stall_report(reports, {.warning_seconds = 1, .shutdown_seconds = 2});
  return 0;
}
