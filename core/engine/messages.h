// SPDX-License-Identifier: Apache-2.0
// The wire format of the messages that neighbours in the tree of a process set exchange. Numbers
// are little-endian, lists and texts have a length in front (net/codec.h). Ranks of one job run the
// same version, so there are no version numbers.
//
//   kind          u8 first, then
//   announcement  u64 plans applied | i32[] ranks that joined | ids
//                 | u32 n | n × (request | i32 rank | i32[] ranks | i64[] rows | status conflict)
//                 | status shutdown
//   plan          ids | u32 n | n × response | bool remember | u32[] groups
//                 | i32 last joined, or -1 | bytes tunables | status shutdown
//   alarm         nothing
//   question      u64 number of the question
//   reports       u64 number of the question | u32 n | n × RankReport (stall/rank_report.cc)
//   goodbye       nothing
//
//   ids           u32 n | n × (u32 first | u32 count): ranges of consecutive numbers
//   request       text name | u8 type | u8 dtype | u8 op | i32 root | i32 device | f64 prescale
//                 | f64 postscale | i64[] shape
//   response      request | i64[] first dimensions | status error
//   status        u8 code | text message, unless the code is 0
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
  kAnnouncement = 1,  // up: tensors that this rank and all ranks below it have
  kPlan = 2,          // down: what all ranks do next
  kAlarm = 3,         // up: a tensor has waited too long
  kQuestion = 4,      // down: asks every rank for a RankReport
  kReports = 5,       // up: the answers of this rank and the ranks below it
  kGoodbye = 6,       // up: the last message, after a plan that ends the engine
};
// Fails for an empty message and for an unknown kind.
Result<MessageKind> kind_of(ConstBytes message);

// Ascending numbers, encoded as ranges of consecutive numbers. A step that repeats the previous one
// mostly needs one range.
void encode_ids(std::span<const ResponseId> ascending, Encoder& out);
Status decode_ids(Decoder& in, std::vector<ResponseId>& ascending);

void encode(const Status& status, Encoder& out);
Status decode(Decoder& in, Status& status);

void encode(const Response& response, Encoder& out);
Status decode(Decoder& in, Response& response);

// A plan as the coordinator has made it.
struct DecidedPlan {
  std::vector<ResponseId> cached;  // ascending; each answered by its cached response
  std::vector<Response> spelled;   // the other tensors; carried out after `cached`
  bool remember = true;            // `spelled` enters the cache; false while a rank has joined
  std::vector<uint32_t> groups;    // of `cached`, then of `spelled`; or empty
  int32_t last_joined = -1;        // a rank of the set once all have joined, otherwise -1
  ByteBuffer tunables;
  Status shutdown;
};
ByteBuffer encode(const DecidedPlan& plan);
// `message` includes the byte of its kind.
Result<DecidedPlan> decode_plan(ConstBytes message);

}  // namespace hvd
