// SPDX-License-Identifier: Apache-2.0
// Seals for bytes that a rank must not interpret unless a rank of this job has sent them, such as a
// pickle, which can run any code. A seal is HMAC-SHA-256 of
//
//   job · process set · operation's name · operation's number · sending rank · bytes
//
// Each part has a fixed length or is preceded by its length, so two different lists of parts are
// never the same bytes. The key is derived from the job's secret (HKDF) and used for nothing else.
// check() refuses bytes that were changed, cut, or taken from another rank, operation, process set
// or job.
//
// Any thread may call seal() and check().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "net/codec.h"
#include "net/secret.h"

namespace hvd {

// Which rank sealed the bytes, and for which operation.
struct SealOrigin {
  std::string_view operation;  // its name
  // Index of the operation in the order of its process set. No two operations of a set have the
  // same number, so sealed bytes that are replayed in a later operation are refused.
  uint64_t number = 0;
  int32_t rank = 0;  // in the job
};

// Makes and checks the seals of one process set of one job.
class Sealer {
 public:
  static constexpr size_t kSize = sizeof(Digest);

  // `job` is the identity of the job: random bytes that differ between jobs with the same secret.
  // `process_set` is a number that no other process set of the job has or had (the number of the
  // communicator).
  Sealer(const Secret& secret, ConstBytes job, uint64_t process_set);

  // Writes the seal of all bytes except the last kSize into the last kSize. kInvalidArgument if
  // `sealed` is shorter than kSize.
  Status seal(const SealOrigin& origin, Bytes sealed) const;
  // Ok if the last kSize bytes are the seal of the bytes before them. Otherwise kUnauthenticated,
  // with the rank and the operation in the message.
  Status check(const SealOrigin& origin, ConstBytes sealed) const;

 private:
  Digest digest(const SealOrigin& origin, ConstBytes bytes) const;

  const Secret key_;
  const ByteBuffer job_;
  const uint64_t process_set_;
};

}  // namespace hvd
