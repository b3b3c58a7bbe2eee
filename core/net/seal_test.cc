// SPDX-License-Identifier: Apache-2.0
#include "net/seal.h"

#include <functional>
#include <string>
#include <vector>

#include "testing/assertions.h"

namespace hvd {
namespace {

Secret known_secret() {
  std::array<std::byte, Secret::kSize> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  return Secret::from_bytes(bytes);
}

// All parts of a seal; a test changes one of them.
struct Sent {
  Secret secret = known_secret();
  std::string job = "job";
  uint64_t process_set = 3;
  std::string operation = "broadcast_object.weights";
  uint64_t number = 17;
  int32_t rank = 1;
  std::string bytes = "pickle";

  Sealer sealer() const { return {secret, bytes_of(job), process_set}; }
  SealOrigin origin() const { return {operation, number, rank}; }
  ByteBuffer sealed() const {
    ByteBuffer made(bytes.size() + Sealer::kSize);
    std::copy_n(bytes_of(bytes).begin(), bytes.size(), made.begin());
    EXPECT_OK(sealer().seal(origin(), made));
    return made;
  }
  Status check(ConstBytes sealed) const { return sealer().check(origin(), sealed); }
};

TEST(Seal, BytesAreAcceptedByTheRankThatExpectsThem) {
  Sent sent;
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(100'000, 'y')}) {
    sent.bytes = bytes;
    EXPECT_OK(sent.check(sent.sealed()));
  }
}

TEST(Seal, EachPartMatters) {
  const struct {
    const char* what;
    std::function<void(Sent&)> change;
  } changes[] = {
      {"secret", [](Sent& sent) { sent.secret = Secret::generate(); }},
      {"job", [](Sent& sent) { sent.job = "job-"; }},
      {"no job", [](Sent& sent) { sent.job.clear(); }},
      {"process set", [](Sent& sent) { sent.process_set = 0; }},
      {"name", [](Sent& sent) { sent.operation = "broadcast_object.weight"; }},
      {"number before", [](Sent& sent) { --sent.number; }},
      {"number after", [](Sent& sent) { ++sent.number; }},
      {"number in its high bytes", [](Sent& sent) { sent.number += uint64_t{1} << 32; }},
      {"rank", [](Sent& sent) { sent.rank = 0; }},
  };
  const ByteBuffer sealed = Sent().sealed();
  for (const auto& [what, change] : changes) {
    Sent expected;
    change(expected);
    SCOPED_TRACE(what);
    const Status status = expected.check(sealed);
    EXPECT_CODE(StatusCode::kUnauthenticated, status);
    EXPECT_THAT(status.message(), ::testing::HasSubstr("rank " + std::to_string(expected.rank)));
    EXPECT_THAT(status.message(), ::testing::HasSubstr('"' + expected.operation + '"'));
  }
}

TEST(Seal, TheSameTextCutAtOtherPlacesIsNotTheSame) {
  const ByteBuffer sealed = Sent().sealed();
  Sent shifted;
  shifted.job += shifted.operation.front();
  shifted.operation.erase(0, 1);
  EXPECT_CODE(StatusCode::kUnauthenticated, shifted.check(sealed));
  shifted = Sent();
  shifted.operation += shifted.bytes.front();
  EXPECT_CODE(StatusCode::kUnauthenticated, shifted.check(ConstBytes(sealed).subspan(1)));
}

TEST(Seal, EachBitOfBytesAndSealMatters) {
  const Sent sent;
  const ByteBuffer sealed = sent.sealed();
  for (size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    ByteBuffer changed = sealed;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    SCOPED_TRACE(bit);
    EXPECT_CODE(StatusCode::kUnauthenticated, sent.check(changed));
  }
}

TEST(Seal, WhatWasCutOrGrewIsRefused) {
  const Sent sent;
  const ByteBuffer sealed = sent.sealed();
  for (size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_CODE(StatusCode::kUnauthenticated, sent.check(ConstBytes(sealed).first(size)));
    EXPECT_CODE(StatusCode::kUnauthenticated, sent.check(ConstBytes(sealed).last(size)));
  }
  ByteBuffer longer = sealed;
  longer.insert(longer.begin(), std::byte{0});
  EXPECT_CODE(StatusCode::kUnauthenticated, sent.check(longer));
  longer = sealed;
  longer.push_back(std::byte{0});
  EXPECT_CODE(StatusCode::kUnauthenticated, sent.check(longer));
}

TEST(Seal, NeedsRoom) {
  ByteBuffer small(Sealer::kSize - 1);
  EXPECT_CODE(StatusCode::kInvalidArgument, Sent().sealer().seal(Sent().origin(), small));
}

// A value computed with Python's hmac module, by RFC 5869 and the layout in the header: so
// different builds make the same seals.
TEST(Seal, MatchesAKnownValue) {
  const ByteBuffer sealed = Sent().sealed();
  std::string digits;
  for (const std::byte each : ConstBytes(sealed).last(Sealer::kSize)) {
    digits += "0123456789abcdef"[std::to_integer<int>(each >> 4)];
    digits += "0123456789abcdef"[std::to_integer<int>(each & std::byte{15})];
  }
  EXPECT_EQ(digits, "a2a54c55fc45ead1a383be71983661dc08c288a7cd3dc1b6cd88f53a98df619b");
}

}  // namespace
}  // namespace hvd
