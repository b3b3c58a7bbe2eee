// SPDX-License-Identifier: Apache-2.0
#include "net/secret.h"

#include "net/codec.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

TEST(Secret, Base64RoundTripKeepsItAndTwoAreNeverEqual) {
  const Secret secret = Secret::generate();
  EXPECT_EQ(secret.to_base64().size(), 44u);
  const auto copy = Secret::from_base64(secret.to_base64());
  ASSERT_OK(copy);
  EXPECT_TRUE(*copy == secret);
  EXPECT_FALSE(Secret::generate() == secret);
}

TEST(Secret, AnythingButThirtyTwoBytesOfBase64IsRefusedWithoutRepeatingIt) {
  const std::string good = Secret::generate().to_base64();
  std::string stray_bits(44, 'A');
  stray_bits[42] = 'B';  // not zero below the last whole byte
  stray_bits[43] = '=';
  for (const std::string& bad :
       {std::string(), good.substr(1), good + "A", std::string(44, 'A'), std::string(44, '!'),
        std::string(42, 'A') + "==", stray_bits, " " + good.substr(1)}) {
    const auto secret = Secret::from_base64(bad);
    EXPECT_CODE(StatusCode::kInvalidArgument, secret);
    if (!bad.empty()) {
      EXPECT_EQ(secret.status().message().find(bad), std::string::npos);
    }
  }
}

// A value computed with another implementation (Python's hmac module), so that peers of different
// builds compute the same.
TEST(Hmac, MatchesAKnownValueHoweverTheMessageIsCut) {
  std::array<std::byte, 32> key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  const Secret secret = Secret::from_bytes(key);
  const Digest whole = hmac_sha256(secret, {bytes_of("message")});
  EXPECT_EQ(whole[0], std::byte{0x62});
  EXPECT_EQ(whole[31], std::byte{0x24});
  Hmac hmac(secret);
  EXPECT_EQ(hmac({bytes_of("mess"), {}, bytes_of("age")}), whole);
  EXPECT_EQ(hmac({bytes_of("message")}), whole);  // the key is kept
  EXPECT_NE(hmac({bytes_of("massage")}), whole);
}

TEST(EqualInConstantTime, ComparesContentAndLength) {
  EXPECT_TRUE(equal_in_constant_time(bytes_of("abc"), bytes_of("abc")));
  EXPECT_FALSE(equal_in_constant_time(bytes_of("abc"), bytes_of("abd")));
  EXPECT_FALSE(equal_in_constant_time(bytes_of("abc"), bytes_of("abcd")));
}

}  // namespace
}  // namespace hvd
