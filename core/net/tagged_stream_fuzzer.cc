// SPDX-License-Identifier: Apache-2.0
// For any bytes in any pieces: the reader returns no byte without a right tag, and it returns the
// bytes of an honest peer unchanged up to the record that the input damages. Uses a real socket,
// because records that have arrived completely are read directly to the caller's memory.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "net/codec.h"
#include "net/tagged_stream.h"

namespace hvd {
namespace {

// Smaller than the buffer of a socket: a write of the test never blocks.
constexpr size_t kLongest = size_t{90} << 10;

Secret key(int number) {
  return Secret::from_bytes(ByteBuffer(Secret::kSize, static_cast<std::byte>(number)));
}

// One direction of a connection; the stream under test is at the other end.
struct Connection {
  Connection() {
    std::array<int, 2> ends{};
    HVD_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) ==
              0);
    here = make_socket_stream(Fd(ends[0]));
    there = make_socket_stream(Fd(ends[1]));
  }
  std::unique_ptr<Stream> here;
  std::unique_ptr<Stream> there;
};

// The bytes on the wire that a TaggedStream sends for `message`.
ByteBuffer records_of(ConstBytes message) {
  Connection connection;
  TaggedStream writer(std::move(connection.here), {.send = key(1), .receive = key(2)});
  const auto written = writer.write_some(message);
  HVD_CHECK(written.is_ok() && *written == message.size());
  ByteBuffer wire(message.size() + 4096);
  size_t size = 0;
  while (true) {
    const auto got = connection.there->read_some(Bytes(wire).subspan(size));
    HVD_CHECK(got.is_ok());
    if (*got == 0) break;
    size += *got;
  }
  wire.resize(size);
  return wire;
}

// All bytes that a reader returns for `wire`, which arrives in pieces. At most 200 pieces: each is
// a system call.
ByteBuffer read_all(ConstBytes wire, size_t piece, size_t most_per_read) {
  Connection connection;
  TaggedStream reader(std::move(connection.here), {.send = key(2), .receive = key(1)});
  piece = std::max(piece, wire.size() / 200);
  most_per_read = std::max(most_per_read, wire.size() / 200);
  ByteBuffer message;
  ByteBuffer in(most_per_read);
  for (size_t at = 0; at < wire.size(); at += piece) {
    const ConstBytes some = wire.subspan(at, std::min(piece, wire.size() - at));
    const auto sent = connection.there->write_some(some);
    HVD_CHECK(sent.is_ok() && *sent == some.size());
    while (true) {
      const auto got = reader.read_some(in);
      if (!got.is_ok()) {
        HVD_CHECK(!reader.read_some(in).is_ok());  // a failure is permanent
        return message;
      }
      if (*got == 0) break;
      message.insert(message.end(), in.begin(), in.begin() + static_cast<ptrdiff_t>(*got));
    }
  }
  return message;
}

// The payload before the record that contains byte `at` of the wire.
size_t intact_before(size_t at) {
  constexpr size_t kOnWire = TaggedStream::kHeaderSize + TaggedStream::kRecord + RecordTags::kSize;
  return at / kOnWire * TaggedStream::kRecord;
}

}  // namespace
}  // namespace hvd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  if (size < 8) return 0;
  const size_t piece = (data[0] + size_t{1}) * (data[1] + size_t{1});
  const size_t most_per_read = 1 + (data[2] | data[3] << 8);
  const size_t damaged_at = data[4] | data[5] << 8 | (data[6] & 1) << 16;
  const auto change = static_cast<std::byte>(data[7]);
  const ConstBytes input = std::as_bytes(std::span(data, size)).subspan(8);

  HVD_CHECK(read_all(input.first(std::min(input.size(), kLongest)), piece, most_per_read).empty());

  // The input is repeated, so that a short input makes long records too.
  ByteBuffer message((data[6] & 2) != 0 ? kLongest : input.size());
  for (size_t i = 0; i < message.size(); ++i) {
    message[i] = input.empty() ? std::byte{0} : input[i % input.size()];
  }
  if (message.empty()) return 0;
  ByteBuffer wire = records_of(message);
  const bool damaged = damaged_at < wire.size() && change != std::byte{0};
  if (damaged) wire[damaged_at] ^= change;
  const ByteBuffer arrived = read_all(wire, piece, most_per_read);
  const size_t intact = damaged ? intact_before(damaged_at) : message.size();
  HVD_CHECK(arrived.size() == intact);
  HVD_CHECK(std::equal(arrived.begin(), arrived.end(), message.begin()));
  return 0;
}
