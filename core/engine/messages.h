// SPDX-License-Identifier: Apache-2.0
// What the engines of neighbouring ranks tell each other, as bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "engine/plan.h"
#include "engine/response_cache.h"
#include "net/codec.h"

namespace hvd {

// The first byte of every message.
enum class MessageKind : uint8_t {
  kAnnouncement = 1,  // up: what all ranks below have
  kPlan = 2,          // down: what everybody does next
  kAlarm = 3,         // up: a tensor waits for too long
  kQuestion = 4,      // down: what is everybody doing?
  kReports = 5,       // up: the answers
  kGoodbye = 6,       // up: the last message, after a plan that ends the engine
};
// Fails for a message without a kind that we know.
Result<MessageKind> kind_of(ConstBytes message);

// Ascending numbers, as runs: those of an unchanged step are one run.
void encode_ids(std::span<const ResponseId> ascending, Encoder& out);
Status decode_ids(Decoder& in, std::vector<ResponseId>& ascending);

void encode(const Status& status, Encoder& out);
Status decode(Decoder& in, Status& status);

void encode(const Response& response, Encoder& out);
Status decode(Decoder& in, Response& response);

// A plan as its root has made it.
struct DecidedPlan {
  std::vector<ResponseId> cached;  // ascending; answered as the cache says
  std::vector<Response> spelled;   // the rest, after them
  bool remember = true;            // what is spelled enters the cache
  std::vector<uint32_t> groups;    // of `cached`, then of `spelled`; or empty
  int32_t last_joined = -1;
  ByteBuffer tunables;
  Status shutdown;
};
ByteBuffer encode(const DecidedPlan& plan);
// `message` with its kind.
Result<DecidedPlan> decode_plan(ConstBytes message);

}  // namespace hvd
