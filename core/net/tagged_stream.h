// SPDX-License-Identifier: Apache-2.0
// A stream that is authenticated but not encrypted: an attacker on the network can read the bytes
// but cannot change them unnoticed. The bytes are sent in records, and each record has a tag that
// only the two peers can compute.
//
//   record:
//   offset     | bytes        | field
//   -----------+--------------+------------------------------------------------------------
//   0          | 4            | length of the payload, uint32, little-endian
//   4          | 1 to 65536   | payload (kRecord)
//   4 + length | 16           | tag: AES-256-GMAC of the payload (GMAC includes its length)
//
// The key belongs to one connection and one direction. The nonce of the tag is the number of the
// record, which both sides count from 0 and do not send. So a record that was changed, cut,
// dropped, repeated, moved or taken from another connection has a wrong tag. read_some() and peek()
// return a byte only after the tag of its record is verified. A changed length field may make the
// reader wait for bytes that never arrive; the caller's deadline ends that wait.
//
// GMAC is the cheapest tag of OpenSSL: 64 KiB take 7.7 us on one core (8.4 GB/s), where encryption
// by AES-GCM takes 20 to 27 us; a record of a few bytes takes 0.25 us. Poly1305 has the same speed
// for long records but needs a new key for each: with ChaCha20, a short record takes 1.1 us.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "net/secret.h"
#include "net/stream.h"

namespace hvd {

// Computes the tags of the records of one direction, in their order. Not thread-safe.
class RecordTags {
 public:
  static constexpr size_t kSize = 16;
  using Tag = std::array<std::byte, kSize>;

  explicit RecordTags(const Secret& key);
  RecordTags(const RecordTags&) = delete;
  RecordTags& operator=(const RecordTags&) = delete;
  ~RecordTags();

  // For each record: start(), add() for each part of its payload, finish(). Each number is used for
  // one payload only: two payloads under the same nonce would reveal the key.
  void start();
  void add(ConstBytes part);
  Tag finish();

 private:
  struct Context;
  const std::unique_ptr<Context> context_;
  uint64_t number_ = 0;
};

// Writing does not copy the payload. Reading copies it only if less than one record has arrived.
// Threads, ownership and failures are those of Stream.
class TaggedStream final : public Stream {
 public:
  // Bytes of the longest payload. Long enough that one tag and one system call per record cost
  // little; short enough that a record stays in the cache between recv(), verification and
  // reduction.
  static constexpr size_t kRecord = size_t{64} << 10;
  static constexpr size_t kHeaderSize = 4;

  // `keys` are from the handshake on `socket`, which must have no unread bytes before the first
  // record.
  TaggedStream(std::unique_ptr<Stream> socket, const SessionKeys& keys);
  ~TaggedStream() override;

  // kUnauthenticated, permanently: bytes were changed on the wire.
  Result<size_t> read_some(Bytes in) override;
  Result<size_t> write_some(ConstBytes out) override { return write_gather({&out, 1}); }
  Result<size_t> write_gather(std::span<const ConstBytes> pieces) override;
  int fd() const override { return socket_->fd(); }
  bool has_buffered() const override;
  uint32_t read_waits_for() const override { return socket_->read_waits_for(); }
  uint32_t write_waits_for() const override { return socket_->write_waits_for(); }

  // A view of the next verified bytes, without a copy; empty if none have arrived. They stay valid
  // until release(n) drops the first n. The payload of a long record begins at an address that is a
  // multiple of 64.
  Result<ConstBytes> peek();
  void release(size_t bytes) { verified_.begin += bytes; }

 private:
  struct Range {
    size_t begin = 0;
    size_t end = 0;
    size_t size() const { return end - begin; }
  };
  struct Buffer;

  // Reads until a whole record has arrived and is verified; false if the socket has no more bytes.
  Result<bool> next_record();
  // Copies verified bytes to `in`; 0 if none have arrived.
  Result<size_t> read_next(Bytes in);
  // If the length of the next record is known and `in` has room for it: reads its payload directly
  // to `in` and verifies it there. Returns 0 if not all of it has arrived; the buffer then holds
  // the part that has.
  Result<size_t> read_record_to(Bytes in);
  Status verify(ConstBytes payload, ConstBytes tag);
  // Bytes of the first unread record, with header and tag; 0 before its header has arrived.
  Result<size_t> record_size() const;
  size_t bytes_to_read(size_t record) const;
  void move_to_front();

  // A record that is being written.
  struct Sealed {
    size_t length;  // of the payload
    std::array<std::byte, kHeaderSize> header;
    RecordTags::Tag tag;
    size_t size() const { return kHeaderSize + length + RecordTags::kSize; }
  };
  // The transport offers up to this many at once: one system call writes all of them.
  static constexpr size_t kMostSealed = 4;
  // Computes header and tag for offered bytes that are not in a sealed record yet. The first `skip`
  // bytes of `pieces` are already taken. A record is sealed when its tag is computed. (The seals of
  // net/seal.h are another thing.)
  void seal(std::span<const ConstBytes> pieces, size_t skip);
  // Writes as much of the sealed records as the socket takes; false if it is full.
  Result<bool> write_sealed(std::span<const ConstBytes> pieces, size_t skip);
  // Drops the records that are written; returns how many more bytes of the payload are taken.
  size_t count_taken();

  const std::unique_ptr<Stream> socket_;
  RecordTags out_tags_;
  RecordTags in_tags_;
  // Records that were sealed when their bytes were first offered. The payload stays with the
  // caller, which offers it again: its next write begins at byte taken_ of the first record.
  std::array<Sealed, kMostSealed> sealed_;
  size_t sealed_count_ = 0;
  size_t sent_ = 0;                 // bytes of the first record, with header and tag
  size_t taken_ = 0;                // bytes of the first payload that were reported as taken
  std::unique_ptr<Buffer> buffer_;  // made by the first read
  Range unread_;                    // in buffer_: arrived, not verified; begins with a header
  Range verified_;                  // in buffer_: verified, not returned
  Status failure_;                  // of reading; permanent
};

}  // namespace hvd
