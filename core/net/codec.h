// SPDX-License-Identifier: Apache-2.0
// Writes and reads small records.
//
//   type              | encoding
//   ------------------+---------------------------------------------------------------
//   integer, bool     | its own width, little-endian; bool is one byte, 0 or 1
//   string, bytes     | count of bytes (uint32), then the bytes
//   vector of T       | count of elements (uint32), then each element
//
// There are no type tags and no padding: reader and writer must use the same order of types. The
// decoder checks every length against the bytes that are present. So a record from an untrusted
// peer can be refused but cannot crash the process, and it costs no more memory than its own size.
//
// Not thread-safe; each object is used by one thread.
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
  // Room for a small record: growing the buffer step by step took longer than writing the record.
  Encoder() { buffer_.reserve(128); }

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

// Reads what Encoder wrote, in the same order. `bytes` must outlive it. A malformed record is
// kInvalidArgument.
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
  // A view of the record, without a copy.
  Status get(ConstBytes& bytes);
  Status get(std::string_view& text);
  Status get(std::string& text);
  Status get(ByteBuffer& bytes);
  template <typename T>
  Status get(std::vector<T>& values) {
    uint32_t count = 0;
    HVD_TRY(get(count));
    // Every element takes at least one byte: a count above the remaining bytes fails at once, and
    // memory grows only with elements that are present.
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
  // Fails if bytes are left over: writer and reader then disagree about the record.
  Status finish() const;

 private:
  Status need(size_t bytes, std::string_view what) const;
  ConstBytes rest_;
};

}  // namespace hvd
