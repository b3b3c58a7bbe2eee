// SPDX-License-Identifier: Apache-2.0
// A stream whose bytes anybody on the wire can read and nobody can change: they travel in records,
// each with a tag that only the two peers can compute.
//
//   record = length (4 bytes, little-endian) · payload (1 to kRecord bytes) · tag (16 bytes)
//
// The tag is AES-256-GMAC of the payload and its length under a key of the connection and the
// direction, with the number of the record as nonce. The number is counted on both sides and not
// sent: a record that was changed, cut, dropped, repeated, moved or taken from another connection
// has a wrong tag. Nothing is handed up before its tag was found right. A changed length field
// makes the reader wait for bytes that may never come; its caller's deadline ends that.
//
// GMAC because it is the cheapest tag of OpenSSL: 64 KiB take 7.7 us on one core (8.4 GB/s) where
// encrypting them by AES-GCM takes 20 to 27, and a record of a few bytes 0.25 us. Poly1305 has the
// same speed for long records but needs a fresh key for each: with ChaCha20 1.1 us for short ones.
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

// The tags of the records of one direction, in their order.
class RecordTags {
 public:
  static constexpr size_t kSize = 16;
  using Tag = std::array<std::byte, kSize>;

  explicit RecordTags(const Secret& key);
  RecordTags(const RecordTags&) = delete;
  RecordTags& operator=(const RecordTags&) = delete;
  ~RecordTags();

  // For each record start(), the parts of its payload, finish(). A number is used once: two
  // payloads under one number would give the key away.
  void start();
  void add(ConstBytes part);
  Tag finish();

 private:
  struct Context;
  const std::unique_ptr<Context> context_;
  uint64_t number_ = 0;
};

// Payload is not copied on its way out, and on its way in only where less of it has arrived than
// one record.
class TaggedStream final : public Stream {
 public:
  // Long enough that a tag and a system call per record cost little, short enough that a record
  // stays in the cache between recv(), its verification and its reduction.
  static constexpr size_t kRecord = size_t{64} << 10;
  static constexpr size_t kHeaderSize = 4;

  // `socket` has carried the handshake that `keys` are from, and nothing that is still unread.
  TaggedStream(std::unique_ptr<Stream> socket, const SessionKeys& keys);
  ~TaggedStream() override;

  // kUnauthenticated: bytes were changed on the wire.
  Result<size_t> read_some(Bytes in) override;
  Result<size_t> write_some(ConstBytes out) override { return write_gather({&out, 1}); }
  Result<size_t> write_gather(std::span<const ConstBytes> pieces) override;
  int fd() const override { return socket_->fd(); }
  bool has_buffered() const override;
  uint32_t read_waits_for() const override { return socket_->read_waits_for(); }
  uint32_t write_waits_for() const override { return socket_->write_waits_for(); }

  // The next verified bytes where they lie, empty when none have arrived; they stay until
  // release(n) drops the first n. Those of a long record begin at a multiple of 64.
  Result<ConstBytes> peek();
  void release(size_t bytes) { verified_.begin += bytes; }

 private:
  struct Range {
    size_t begin = 0;
    size_t end = 0;
    size_t size() const { return end - begin; }
  };
  struct Buffer;

  // Reads until a whole record is there and verified; false when the socket has no more bytes.
  Result<bool> next_record();
  // Verified bytes to `in`; 0 when none have arrived.
  Result<size_t> read_next(Bytes in);
  // The next record, if its length is known and `in` has room for it: its payload is read straight
  // to `in` and verified there. 0 when not all of it has arrived; the buffer has it then.
  Result<size_t> read_record_to(Bytes in);
  Status verify(ConstBytes payload, ConstBytes tag);
  // How many bytes the record at the front has with header and tag; 0 before its header is there.
  Result<size_t> record_size() const;
  size_t bytes_to_read(size_t record) const;
  void move_to_front();

  // A record that is on its way out.
  struct Sealed {
    size_t length;  // of the payload
    std::array<std::byte, kHeaderSize> header;
    RecordTags::Tag tag;
    size_t size() const { return kHeaderSize + length + RecordTags::kSize; }
  };
  // As many as a mesh offers at once: one system call for all of them.
  static constexpr size_t kMostSealed = 4;
  // Seals what is offered beyond the records that are sealed already. The first `skip` bytes of
  // `pieces` are done with.
  void seal(std::span<const ConstBytes> pieces, size_t skip);
  // Writes what the socket takes of the sealed records; false when it is full.
  Result<bool> write_sealed(std::span<const ConstBytes> pieces, size_t skip);
  // Forgets the records that are written, and returns how much more of the payload is taken.
  size_t count_taken();

  const std::unique_ptr<Stream> socket_;
  RecordTags out_tags_;
  RecordTags in_tags_;
  // Sealed when they were offered first. Their payload is what the caller offers next, from its
  // byte taken_ on in the first of them.
  std::array<Sealed, kMostSealed> sealed_;
  size_t sealed_count_ = 0;
  size_t sent_ = 0;                 // of the first record, header and tag included
  size_t taken_ = 0;                // of the payload of the first record, as the caller was told
  std::unique_ptr<Buffer> buffer_;  // made by the first read
  Range unread_;                    // in buffer_: has arrived, and begins with a header
  Range verified_;                  // in buffer_: may be handed up
  Status failure_;                  // of reading
};

}  // namespace hvd
