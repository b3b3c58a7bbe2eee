// SPDX-License-Identifier: Apache-2.0
// The job secret, keys derived from it, and HMAC-SHA-256. The functions throw std::bad_alloc if
// OpenSSL has no memory (net/openssl.h); the C interface turns that into HVD_UNAVAILABLE.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace hvd {

// 32 random bytes that only the processes of one job have, or a key derived from them. A value; the
// destructor wipes it from memory. It has no formatter and no stream operator, so code cannot print
// it by accident.
class Secret {
 public:
  static constexpr size_t kSize = 32;

  static Secret generate();
  // `bytes` are kSize long.
  static Secret from_bytes(ConstBytes bytes);
  // Standard base64 of exactly 32 bytes, otherwise kInvalidArgument. The message does not repeat
  // the text.
  static Result<Secret> from_base64(std::string_view text);
  std::string to_base64() const;

  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  ConstBytes bytes() const { return bytes_; }
  // In constant time: the duration does not depend on the position of the first difference.
  friend bool operator==(const Secret& a, const Secret& b);

 private:
  Secret() = default;
  std::array<std::byte, kSize> bytes_;
};

using Digest = std::array<std::byte, 32>;

// HMAC-SHA-256 of the concatenation of `parts`. The caller must ensure that two different lists of
// parts never concatenate to the same bytes.
Digest hmac_sha256(const Secret& key, std::initializer_list<ConstBytes> parts);

// The same for many messages under one key, without setting the key up each time. Not thread-safe.
class Hmac {
 public:
  explicit Hmac(const Secret& key);
  Hmac(Hmac&&) noexcept;
  Hmac& operator=(Hmac&&) noexcept;
  ~Hmac();
  Digest operator()(std::initializer_list<ConstBytes> parts);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The duration depends on the lengths only. False for different lengths.
bool equal_in_constant_time(ConstBytes a, ConstBytes b);

// Fills `out` with random bytes of the kernel's generator (getrandom).
void fill_random(Bytes out);

}  // namespace hvd
