// SPDX-License-Identifier: Apache-2.0
// Seals of bytes that must not be interpreted unless a rank of this job has sent them, such as a
// pickle, which runs code of the process that made it. A seal is HMAC-SHA-256 of
//
//   job · process set · operation's name · operation's number · sending rank · bytes
//
// where each part has a fixed length or its length before it, so that no two lists of parts are the
// same bytes. The key is derived from the job's secret and serves nothing else. Bytes that were
// changed, cut, or taken from another rank, operation, process set or job are refused.
//
// Safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "net/codec.h"
#include "net/secret.h"

namespace hvd {

// Where sealed bytes come from.
struct SealOrigin {
  std::string_view operation;  // its name
  // The operation's place in the order of its process set. No two operations of a set have the same
  // one, which is what makes a replayed blob differ from a fresh one.
  uint64_t number = 0;
  int32_t rank = 0;  // in the job
};

// Of one process set of one job.
class Sealer {
 public:
  static constexpr size_t kSize = sizeof(Digest);

  // `job` tells this job from all others with the same secret. `process_set` is a number that no
  // other set of the job has or had.
  Sealer(const Secret& secret, ConstBytes job, uint64_t process_set);

  // Writes the seal of all bytes but the last kSize into those. kInvalidArgument if there are
  // fewer.
  Status seal(const SealOrigin& origin, Bytes sealed) const;
  // Ok if the last kSize bytes are the seal of all before them. kUnauthenticated, with the rank and
  // the operation, if not.
  Status check(const SealOrigin& origin, ConstBytes sealed) const;

 private:
  Digest digest(const SealOrigin& origin, ConstBytes bytes) const;

  const Secret key_;
  const ByteBuffer job_;
  const uint64_t process_set_;
};

}  // namespace hvd
