// SPDX-License-Identifier: Apache-2.0
// The job secret, keys derived from it, and HMAC-SHA-256.
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

// 32 random bytes that everyone in a job knows and nobody else, or a key made from them. Wiped
// from memory when destroyed. There is no way to print one by accident.
class Secret {
 public:
  static constexpr size_t kSize = 32;

  static Secret generate();
  // `bytes` are kSize long.
  static Secret from_bytes(ConstBytes bytes);
  // Standard base64 of exactly 32 bytes; the error does not repeat the text.
  static Result<Secret> from_base64(std::string_view text);
  std::string to_base64() const;

  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  ConstBytes bytes() const { return bytes_; }
  // Takes the same time wherever the first difference is.
  friend bool operator==(const Secret& a, const Secret& b);

 private:
  Secret() = default;
  std::array<std::byte, kSize> bytes_;
};

using Digest = std::array<std::byte, 32>;

// Of the concatenation of `parts`: callers see to it that two different lists of parts never
// concatenate to the same bytes.
Digest hmac_sha256(const Secret& key, std::initializer_list<ConstBytes> parts);

// The same for many messages under one key, without setting the key up each time.
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

// Takes the same time wherever the first difference is; false for different lengths.
bool equal_in_constant_time(ConstBytes a, ConstBytes b);

// Fills `out` with bytes that nobody can guess.
void fill_random(Bytes out);

}  // namespace hvd
