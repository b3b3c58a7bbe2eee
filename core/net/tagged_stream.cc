// SPDX-License-Identifier: Apache-2.0
#include "net/tagged_stream.h"

#include <openssl/evp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "net/codec.h"
#include "net/openssl.h"

namespace hvd {
namespace {

constexpr size_t kAlignment = 64;
// For fewer bytes, a copy is cheaper than a system call.
constexpr size_t kWorthReadingStraight = 16 << 10;
constexpr size_t kNonceSize = 12;
// One record with header and tag, and the header of the next one: with the length of the next
// record the reader knows how much to read.
constexpr size_t kMostUnread = TaggedStream::kHeaderSize + TaggedStream::kRecord +
                               RecordTags::kSize + TaggedStream::kHeaderSize;
constexpr size_t kMostParts = 16;  // pieces that a socket stream passes to one sendmsg

// A key of its own, because frames (net/frame.h) may have used the session key on this connection
// before. The label cannot collide with a frame: the HMAC of a frame begins with its number, and no
// frame has the number that the first eight bytes of the label would be.
Secret record_key(const Secret& session_key) {
  return Secret::from_bytes(hmac_sha256(session_key, {bytes_of("hvd key of records")}));
}

// Bytes per call of OpenSSL. For memory that is not in the cache, 1 MiB takes 160 us in steps of
// 4 KiB and 220 us in one step; for memory in the cache, 100 us in both cases.
constexpr size_t kTagStep = 4 << 10;

// Bytes that a read of the socket would return now; 0 if that is not known.
size_t waiting_bytes(int socket) {
  int count = 0;
  return ::ioctl(socket, FIONREAD, &count) == 0 && count > 0 ? static_cast<size_t>(count) : 0;
}

const unsigned char* raw(ConstBytes bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Fetched once: a fetch searches OpenSSL's tables under a lock.
EVP_CIPHER* tag_method() {
  static EVP_CIPHER* const method =
      require_openssl(EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr));
  return method;
}

// Calls `take` with each part of the concatenation of `pieces`, after the first `skip` bytes and up
// to `most` bytes. Returns the number of bytes.
template <typename Take>
size_t for_each_part(std::span<const ConstBytes> pieces, size_t skip, size_t most, Take take) {
  size_t bytes = 0;
  for (ConstBytes piece : pieces) {
    const size_t left_out = std::min(skip, piece.size());
    skip -= left_out;
    piece = piece.subspan(left_out);
    piece = piece.first(std::min(piece.size(), most - bytes));
    if (piece.empty()) continue;
    take(piece);
    bytes += piece.size();
  }
  return bytes;
}

}  // namespace

struct RecordTags::Context {
  EVP_CIPHER_CTX* const cipher = require_openssl(EVP_CIPHER_CTX_new());
  Context() = default;
  ~Context() { EVP_CIPHER_CTX_free(cipher); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

RecordTags::RecordTags(const Secret& key) : context_(std::make_unique<Context>()) {
  require_openssl(
      EVP_EncryptInit_ex2(context_->cipher, tag_method(), raw(key.bytes()), nullptr, nullptr) == 1);
}

RecordTags::~RecordTags() = default;

void RecordTags::start() {
  std::array<unsigned char, kNonceSize> nonce{};
  for (size_t i = 0; i < sizeof(number_); ++i) {
    nonce[i] = static_cast<unsigned char>(number_ >> (8 * i));
  }
  ++number_;
  HVD_CHECK(number_ != 0);
  require_openssl(EVP_EncryptInit_ex2(context_->cipher, nullptr, nullptr, nonce.data(), nullptr) ==
                  1);
}

void RecordTags::add(ConstBytes part) {
  while (!part.empty()) {
    const ConstBytes step = part.first(std::min(part.size(), kTagStep));
    // A null output makes the input associated data: authenticated, not encrypted.
    int written = 0;
    require_openssl(EVP_EncryptUpdate(context_->cipher, nullptr, &written, raw(step),
                                      static_cast<int>(step.size())) == 1);
    part = part.subspan(step.size());
  }
}

RecordTags::Tag RecordTags::finish() {
  Tag tag;
  std::array<unsigned char, kSize> nothing;
  int written = 0;
  require_openssl(EVP_EncryptFinal_ex(context_->cipher, nothing.data(), &written) == 1);
  require_openssl(EVP_CIPHER_CTX_ctrl(context_->cipher, EVP_CTRL_AEAD_GET_TAG, kSize, tag.data()) ==
                  1);
  return tag;
}

// The payload of a record whose header is at kFront is aligned to kAlignment.
struct alignas(kAlignment) TaggedStream::Buffer {
  static constexpr size_t kFront = kAlignment - kHeaderSize;
  std::array<std::byte, kFront + kMostUnread> bytes;
};

TaggedStream::TaggedStream(std::unique_ptr<Stream> socket, const SessionKeys& keys)
    : socket_(std::move(socket)),
      out_tags_(record_key(keys.send)),
      in_tags_(record_key(keys.receive)) {}

TaggedStream::~TaggedStream() = default;

// ---- Writing.

void TaggedStream::seal(std::span<const ConstBytes> pieces, size_t skip) {
  size_t offered = 0;
  for (const ConstBytes piece : pieces) offered += piece.size();
  size_t at = skip;
  for (size_t i = 0; i < sealed_count_; ++i) at += sealed_[i].length;
  at -= taken_;
  while (sealed_count_ < kMostSealed && at < offered) {
    Sealed& record = sealed_[sealed_count_++];
    out_tags_.start();
    record.length =
        for_each_part(pieces, at, kRecord, [&](ConstBytes part) { out_tags_.add(part); });
    record.tag = out_tags_.finish();
    for (size_t i = 0; i < kHeaderSize; ++i) {
      record.header[i] = static_cast<std::byte>(record.length >> (8 * i));
    }
    at += record.length;
  }
}

Result<bool> TaggedStream::write_sealed(std::span<const ConstBytes> pieces, size_t skip) {
  std::array<ConstBytes, kMostParts> parts;
  size_t count = 0;
  size_t to_write = 0;
  size_t left_out = sent_;
  const auto add = [&](ConstBytes part) {
    const size_t sent = std::min(left_out, part.size());
    left_out -= sent;
    part = part.subspan(sent);
    if (count == kMostParts || part.empty()) return;
    parts[count++] = part;
    to_write += part.size();
  };
  for (size_t i = 0; i < sealed_count_; ++i) {
    const Sealed& record = sealed_[i];
    add(record.header);
    // The caller does not offer taken bytes again, but offers bytes that were sent and not taken.
    const size_t taken = i == 0 ? taken_ : 0;
    left_out -= taken;
    const size_t offered = for_each_part(pieces, skip, record.length - taken, add);
    HVD_CHECK(offered == record.length - taken);
    add(record.tag);
    skip += offered;
  }
  HVD_TRY_ASSIGN(const size_t written, socket_->write_gather({parts.data(), count}));
  sent_ += written;
  return written == to_write;
}

size_t TaggedStream::count_taken() {
  size_t total = 0;
  size_t done = 0;
  for (; done < sealed_count_ && sent_ >= sealed_[done].size(); ++done) {
    sent_ -= sealed_[done].size();
    total += sealed_[done].length - std::exchange(taken_, 0);
  }
  std::copy(sealed_.begin() + static_cast<std::ptrdiff_t>(done),
            sealed_.begin() + static_cast<std::ptrdiff_t>(sealed_count_), sealed_.begin());
  sealed_count_ -= done;
  if (sealed_count_ == 0) return total;
  // The last byte of a payload counts as taken only when the tag is written, so that the caller
  // calls again.
  const size_t sent = sent_ <= kHeaderSize ? 0 : sent_ - kHeaderSize;
  const size_t taken = std::min(sent, sealed_[0].length - 1);
  return total + taken - std::exchange(taken_, taken);
}

Result<size_t> TaggedStream::write_gather(std::span<const ConstBytes> pieces) {
  size_t total = 0;
  while (true) {
    seal(pieces, total);
    if (sealed_count_ == 0) return total;
    HVD_TRY_ASSIGN(const bool has_room, write_sealed(pieces, total));
    total += count_taken();
    if (!has_room) return total;
  }
}

// ---- Reading.

Result<size_t> TaggedStream::record_size() const {
  if (unread_.size() < kHeaderSize) return size_t{0};
  Decoder header(ConstBytes(buffer_->bytes).subspan(unread_.begin, kHeaderSize));
  uint32_t length = 0;
  HVD_TRY(header.get(length));
  if (length > 0 && length <= kRecord) return kHeaderSize + length + RecordTags::kSize;
  return unauthenticated("a record of " + std::to_string(length) + " bytes, at most " +
                         std::to_string(kRecord) + ": its length was changed on the network");
}

size_t TaggedStream::bytes_to_read(size_t record) const {
  // At most one record and the next header, so that the payload of the next record can be read to
  // an aligned address. Without a header, as much as one record may have: a short record is then
  // read by one system call.
  return (record == 0 ? kMostUnread : record + kHeaderSize) - unread_.size();
}

void TaggedStream::move_to_front() {
  if (unread_.begin == Buffer::kFront) return;
  std::byte* const bytes = buffer_->bytes.data();
  std::memmove(bytes + Buffer::kFront, bytes + unread_.begin, unread_.size());
  unread_ = {Buffer::kFront, Buffer::kFront + unread_.size()};
}

Status TaggedStream::verify(ConstBytes payload, ConstBytes tag) {
  in_tags_.start();
  in_tags_.add(payload);
  if (equal_in_constant_time(tag, in_tags_.finish())) return Status::ok();
  return unauthenticated("a record has a wrong tag");
}

Result<bool> TaggedStream::next_record() {
  if (buffer_ == nullptr) {
    buffer_ = std::make_unique<Buffer>();
    unread_ = {Buffer::kFront, Buffer::kFront};
  }
  while (true) {
    HVD_TRY_ASSIGN(const size_t record, record_size());
    if (record > 0 && unread_.size() >= record) {
      const ConstBytes bytes = ConstBytes(buffer_->bytes).subspan(unread_.begin, record);
      const size_t length = record - kHeaderSize - RecordTags::kSize;
      const ConstBytes payload = bytes.subspan(kHeaderSize, length);
      HVD_TRY(verify(payload, bytes.last(RecordTags::kSize)));
      verified_ = {unread_.begin + kHeaderSize, unread_.begin + kHeaderSize + length};
      unread_.begin += record;
      return true;
    }
    move_to_front();
    const Bytes room = Bytes(buffer_->bytes).subspan(unread_.end, bytes_to_read(record));
    HVD_TRY_ASSIGN(const size_t got, socket_->read_some(room));
    if (got == 0) return false;
    unread_.end += got;
  }
}

Result<ConstBytes> TaggedStream::peek() {
  if (verified_.size() == 0) {
    // A failure is permanent. Otherwise, if record n was dropped, record n + 1 would fail at the
    // first read and be accepted at the second, which uses the number n + 1.
    HVD_TRY(failure_);
    const Result<bool> arrived = next_record();
    if (!arrived.is_ok()) return failure_ = arrived.status();
    if (!*arrived) return ConstBytes{};
  }
  return ConstBytes(buffer_->bytes).subspan(verified_.begin, verified_.size());
}

Result<size_t> TaggedStream::read_record_to(Bytes in) {
  // Only if exactly the header of the record has arrived (with the record before it).
  if (buffer_ == nullptr || unread_.size() != kHeaderSize) return size_t{0};
  HVD_TRY_ASSIGN(const size_t record, record_size());
  const size_t length = record - kHeaderSize - RecordTags::kSize;
  if (length < kWorthReadingStraight || length > in.size()) return size_t{0};
  // If not all of it has arrived, it would be copied twice.
  if (waiting_bytes(fd()) < length + RecordTags::kSize) return size_t{0};
  move_to_front();
  HVD_TRY_ASSIGN(const size_t got, socket_->read_some(in.first(length)));
  // The tag and the next header, and any late part of the payload, are read to the buffer.
  std::byte* const payload = buffer_->bytes.data() + Buffer::kFront + kHeaderSize;
  Bytes trailer(payload + length, RecordTags::kSize + kHeaderSize);
  size_t behind = 0;
  if (got == length) {
    HVD_TRY_ASSIGN(behind, socket_->read_some(trailer));
  }
  if (behind < RecordTags::kSize) {
    std::copy_n(in.data(), got, payload);
    unread_.end += got + behind;
    return size_t{0};
  }
  HVD_TRY(verify(in.first(length), trailer.first(RecordTags::kSize)));
  unread_.end += length + behind;
  unread_.begin += record;
  return length;
}

Result<size_t> TaggedStream::read_some(Bytes in) {
  size_t total = 0;
  while (total < in.size()) {
    Result<size_t> count = read_next(in.subspan(total));
    if (!count.is_ok()) {
      // The next call returns the failure; the bytes verified before it are valid.
      if (total > 0) break;
      return count;
    }
    if (*count == 0) break;
    total += *count;
  }
  return total;
}

Result<size_t> TaggedStream::read_next(Bytes in) {
  if (verified_.size() == 0) {
    HVD_TRY(failure_);
    Result<size_t> straight = read_record_to(in);
    if (!straight.is_ok()) return failure_ = straight.status();
    if (*straight > 0) return straight;
  }
  HVD_TRY_ASSIGN(const ConstBytes shown, peek());
  const size_t count = std::min(shown.size(), in.size());
  copy_bytes(in.data(), shown.data(), count);
  release(count);
  return count;
}

bool TaggedStream::has_buffered() const { return verified_.size() + unread_.size() > 0; }

}  // namespace hvd
