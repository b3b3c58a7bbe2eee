// SPDX-License-Identifier: Apache-2.0
#include "net/tagged_stream.h"

#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "net/codec.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;

// One direction of a connection, which a test can inspect and change.
struct Pipe {
  ByteBuffer bytes;
  size_t room = SIZE_MAX;  // bytes that the next writes take
};

class PipeEnd final : public Stream {
 public:
  PipeEnd(Pipe& out, Pipe& in) : out_(out), in_(in) {}

  Result<size_t> read_some(Bytes in) override {
    const size_t count = std::min(in.size(), in_.bytes.size());
    std::copy_n(in_.bytes.begin(), count, in.begin());
    in_.bytes.erase(in_.bytes.begin(), in_.bytes.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  Result<size_t> write_some(ConstBytes out) override { return write_gather({&out, 1}); }
  Result<size_t> write_gather(std::span<const ConstBytes> pieces) override {
    ++calls;
    EXPECT_LE(pieces.size(), 16u);  // the most that one call of the socket takes
    size_t total = 0;
    for (const ConstBytes piece : pieces) {
      const size_t count = std::min(piece.size(), out_.room);
      out_.bytes.insert(out_.bytes.end(), piece.begin(),
                        piece.begin() + static_cast<std::ptrdiff_t>(count));
      out_.room -= count;
      total += count;
      if (count < piece.size()) break;
    }
    return total;
  }
  int fd() const override { return -1; }

  int calls = 0;  // of write_gather

 private:
  Pipe& out_;
  Pipe& in_;
};

// Two peers and the wire between them.
struct Peers {
  Peers() : Peers(SessionKeys{Secret::generate(), Secret::generate()}) {}
  explicit Peers(const SessionKeys& keys)
      : socket(new PipeEnd(there, back)),
        sender(std::unique_ptr<Stream>(socket), keys),
        receiver(std::make_unique<PipeEnd>(back, there), {keys.receive, keys.send}) {}

  Pipe there;
  Pipe back;
  PipeEnd* socket;
  TaggedStream sender;
  TaggedStream receiver;
};

ByteBuffer pattern(size_t size) {
  ByteBuffer bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + (i >> 12));
  return bytes;
}

ByteBuffer read_all(Stream& stream) {
  ByteBuffer all;
  ByteBuffer part(100'000);
  while (true) {
    const auto count = stream.read_some(part);
    EXPECT_OK(count);
    if (!count.is_ok() || *count == 0) return all;
    all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(*count));
  }
}

TEST(TaggedStream, EveryByteArrivesHoweverTheSocketCutsRecords) {
  constexpr size_t kRecord = TaggedStream::kRecord;
  std::minstd_rand random(7);
  for (const size_t size :
       {size_t{1}, size_t{2}, size_t{40}, kRecord - 1, kRecord, kRecord + 1, 3 * kRecord + 5}) {
    const ByteBuffer sent = pattern(size);
    for (const size_t most : {size_t{1}, size_t{3}, size_t{21}, size_t{5000}, kRecord + 20}) {
      if (size / most > 10'000) continue;  // byte by byte only for short messages
      Peers peers;
      ByteBuffer received;
      ByteBuffer part(kRecord);
      size_t out = 0;
      int idle = 0;
      while (received.size() < size && idle < 100) {
        // The end of the offered bytes changes as well: later writes may only offer more.
        const ConstBytes rest = ConstBytes(sent).subspan(out);
        const size_t cut = random() % (rest.size() + 1);
        const ConstBytes pieces[] = {rest.first(cut), rest.subspan(cut)};
        peers.there.room = random() % (most + 1);
        const auto taken = peers.sender.write_gather(pieces);
        ASSERT_OK(taken);
        out += *taken;
        ASSERT_LE(out, size);
        const auto got = peers.receiver.read_some(Bytes(part).first(1 + random() % part.size()));
        ASSERT_OK(got);
        received.insert(received.end(), part.begin(),
                        part.begin() + static_cast<std::ptrdiff_t>(*got));
        idle = *taken + *got == 0 ? idle + 1 : 0;
        if (out == size) {
          // The caller will not call again: all bytes must be on the wire.
          const ByteBuffer last = read_all(peers.receiver);
          received.insert(received.end(), last.begin(), last.end());
          break;
        }
      }
      ASSERT_TRUE(received == sent) << size << " bytes, at most " << most << " at a time";
      EXPECT_FALSE(peers.receiver.has_buffered());
    }
  }
}

TEST(TaggedStream, ShortMessageIsOneWriteAndOneRead) {
  Peers peers;
  ASSERT_EQ(*peers.sender.write_some(bytes_of("hello")), 5u);
  EXPECT_EQ(peers.socket->calls, 1);
  EXPECT_EQ(peers.there.bytes.size(), 5 + TaggedStream::kHeaderSize + RecordTags::kSize);
  EXPECT_EQ(text_of(read_all(peers.receiver)), "hello");
}

TEST(TaggedStream, PiecesOfAMessageMayBeMany) {
  Peers peers;
  const ByteBuffer sent = pattern(100);
  std::vector<ConstBytes> pieces;
  for (size_t i = 0; i < 100; ++i) pieces.push_back(ConstBytes(sent).subspan(i, 1));
  ASSERT_EQ(*peers.sender.write_gather(pieces), 100u);
  EXPECT_TRUE(read_all(peers.receiver) == sent);
}

TEST(TaggedStream, VerifiedBytesOfLongRecordsAreShownAligned) {
  Peers peers;
  const ByteBuffer sent = pattern(4 * TaggedStream::kRecord + 100);
  ASSERT_EQ(*peers.sender.write_some(sent), sent.size());
  ByteBuffer received;
  while (received.size() < sent.size()) {
    const auto shown = peers.receiver.peek();
    ASSERT_OK(shown);
    ASSERT_FALSE(shown->empty());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(shown->data()) % 64, 0u);
    received.insert(received.end(), shown->begin(), shown->end());
    peers.receiver.release(shown->size());
  }
  EXPECT_TRUE(received == sent);
}

// What an attacker does to the three records "first", "second", "third".
struct Attack {
  const char* name;
  std::function<void(std::deque<ByteBuffer>& records)> change;
  std::string good;  // the payload before the attacked record
};

class Attacked : public ::testing::TestWithParam<Attack> {};
INSTANTIATE_TEST_SUITE_P(
    Attacks, Attacked,
    ::testing::Values(
        Attack{"Dropped", [](auto& records) { records.erase(records.begin() + 1); }, "first"},
        Attack{"DroppedAtTheFront", [](auto& records) { records.pop_front(); }, ""},
        Attack{"Repeated", [](auto& records) { records.insert(records.begin() + 1, records[0]); },
               "first"},
        Attack{"Swapped", [](auto& records) { std::swap(records[1], records[2]); }, "first"},
        Attack{"Cut",
               [](auto& records) {
                 records[1][0] = std::byte{5};
                 records[1].erase(records[1].begin() + 9);
               },
               "first"},
        Attack{"Joined",  // two records joined to one
               [](auto& records) {
                 records[1][0] = static_cast<std::byte>(records[1].size() + records[2].size() - 20);
               },
               "first"},
        Attack{"WithoutATag",
               [](auto& records) { records[1].resize(records[1].size() - RecordTags::kSize); },
               "first"},
        Attack{"OfNoBytes", [](auto& records) { records[1] = ByteBuffer(20); }, "first"},
        Attack{"TooLong", [](auto& records) { records[1][3] = std::byte{1}; }, "first"}),
    [](const auto& attack) { return attack.param.name; });

TEST_P(Attacked, RecordsEndTheStreamForGoodAndNoWrongByteIsHandedUp) {
  Peers peers;
  std::deque<ByteBuffer> records;
  for (const char* text : {"first", "second", "third"}) {
    ASSERT_OK(peers.sender.write_some(bytes_of(text)));
    records.push_back(std::exchange(peers.there.bytes, {}));
  }
  GetParam().change(records);
  for (const ByteBuffer& record : records) {
    peers.there.bytes.insert(peers.there.bytes.end(), record.begin(), record.end());
  }
  ByteBuffer in(100);
  std::string good;
  Status failure;
  for (int i = 0; i < 10 && failure.is_ok(); ++i) {
    const auto count = peers.receiver.read_some(in);
    failure = count.status();
    if (count.is_ok()) good += text_of(ConstBytes(in).first(*count));
  }
  EXPECT_EQ(good, GetParam().good);
  // The record that follows has the right tag for the next number.
  for (int i = 0; i < 5; ++i) {
    EXPECT_CODE(StatusCode::kUnauthenticated, peers.receiver.read_some(in));
    EXPECT_CODE(StatusCode::kUnauthenticated, peers.receiver.peek());
  }
}

TEST(TaggedStream, NoChangedByteIsHandedUp) {
  const SessionKeys keys{Secret::generate(), Secret::generate()};
  const size_t wire = 2 * (10 + TaggedStream::kHeaderSize + RecordTags::kSize);
  for (size_t i = 0; i < wire; ++i) {
    Peers peers(keys);
    ASSERT_EQ(*peers.sender.write_some(bytes_of("0123456789")), 10u);
    ASSERT_EQ(*peers.sender.write_some(bytes_of("0123456789")), 10u);
    ASSERT_EQ(peers.there.bytes.size(), wire);
    peers.there.bytes[i] ^= std::byte{0x10};
    ByteBuffer in(100);
    const auto count = peers.receiver.read_some(in);
    const size_t good = i < wire / 2 ? 0 : 10;
    if (count.is_ok()) {
      ASSERT_EQ(*count, good) << "byte " << i;
      const auto next = peers.receiver.read_some(in);
      // With an increased length the record is not complete.
      ASSERT_EQ(next.is_ok() ? *next : 0, 0u) << "byte " << i;
    } else {
      ASSERT_EQ(good, 0u) << "byte " << i;
    }
  }
}

TEST(TaggedStream, RecordOfAnotherConnectionOrDirectionIsRefused) {
  const SessionKeys keys{Secret::generate(), Secret::generate()};
  Peers peers(keys);
  Peers others;
  ASSERT_OK(others.sender.write_some(bytes_of("hello")));
  peers.there.bytes = others.there.bytes;
  ByteBuffer in(100);
  const auto foreign = peers.receiver.read_some(in);
  EXPECT_CODE(StatusCode::kUnauthenticated, foreign);
  EXPECT_THAT(foreign.status().message(), HasSubstr("wrong tag"));
  // The sender's own bytes are reflected to it.
  Peers echo(keys);
  ASSERT_OK(echo.sender.write_some(bytes_of("hello")));
  echo.back.bytes = echo.there.bytes;
  EXPECT_CODE(StatusCode::kUnauthenticated, echo.sender.read_some(in));
}

}  // namespace
}  // namespace hvd
