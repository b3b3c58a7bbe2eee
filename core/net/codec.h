// SPDX-License-Identifier: Apache-2.0
// Writes and reads small records: integers little-endian, strings and vectors with a 32-bit count
// before them. The reader checks every length against what is really there, so a record from a
// stranger can be refused but cannot crash, and costs no memory that it did not bring itself.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace hvd {

using ByteBuffer = std::vector<std::byte>;

inline ConstBytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string_view text_of(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Encoder {
 public:
  // Room for a small record from the start: growing byte by byte took longer than writing it.
  Encoder() { buffer_.reserve(128); }

  // Exactly the width of T; a bool takes one byte.
  template <std::integral T>
  Encoder& put(T value) {
    auto bits = static_cast<uint64_t>(value);
    std::array<std::byte, sizeof(T)> bytes;
    for (size_t i = 0; i < sizeof(T); ++i, bits >>= 8)
      bytes[i] = static_cast<std::byte>(bits & 0xff);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Encoder& put(ConstBytes bytes);
  Encoder& put(std::string_view text) { return put(bytes_of(text)); }
  Encoder& put(const char* text) { return put(std::string_view(text)); }
  Encoder& put(const std::string& text) { return put(std::string_view(text)); }
  Encoder& put(const ByteBuffer& bytes) { return put(ConstBytes(bytes)); }
  template <typename T>
  Encoder& put(const std::vector<T>& values) {
    put_count(values.size());
    for (const T& value : values) put(value);
    return *this;
  }

  ConstBytes bytes() const { return buffer_; }
  ByteBuffer take() { return std::move(buffer_); }

 private:
  void put_count(size_t count);
  ByteBuffer buffer_;
};

// Reads what Encoder wrote, in the same order. Borrows `bytes`.
class Decoder {
 public:
  explicit Decoder(ConstBytes bytes) : rest_(bytes) {}

  template <std::integral T>
  Status get(T& value) {
    HVD_TRY(need(sizeof(T), "an integer"));
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) bits |= std::to_integer<uint64_t>(rest_[i]) << (8 * i);
    if constexpr (std::is_same_v<T, bool>) {
      if (bits > 1) return invalid_argument("malformed record: a truth value is neither 0 nor 1");
    }
    value = static_cast<T>(bits);
    rest_ = rest_.subspan(sizeof(T));
    return Status::ok();
  }
  // Borrowed from the record.
  Status get(ConstBytes& bytes);
  Status get(std::string_view& text);
  Status get(std::string& text);
  Status get(ByteBuffer& bytes);
  template <typename T>
  Status get(std::vector<T>& values) {
    uint32_t count = 0;
    HVD_TRY(get(count));
    // Every element takes a byte at least: a count that cannot be true fails at once, and memory
    // grows only with elements that are really there.
    HVD_TRY(need(count, "a list"));
    values.clear();
    for (uint32_t i = 0; i < count; ++i) {
      T value{};
      HVD_TRY(get(value));
      values.push_back(std::move(value));
    }
    return Status::ok();
  }

  size_t remaining() const { return rest_.size(); }
  // Fails when bytes are left over: writer and reader then disagree about the record.
  Status finish() const;

 private:
  Status need(size_t bytes, std::string_view what) const;
  ConstBytes rest_;
};

}  // namespace hvd
