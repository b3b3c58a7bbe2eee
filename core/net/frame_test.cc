// SPDX-License-Identifier: Apache-2.0
#include "net/frame.h"

#include "testing/assertions.h"

namespace hvd {
namespace {

ByteBuffer frames(const Secret& key, std::initializer_list<std::string_view> messages) {
  FrameWriter writer(key);
  ByteBuffer out;
  for (const std::string_view message : messages) EXPECT_OK(writer.append(bytes_of(message), out));
  return out;
}

TEST(Frame, MessagesArriveWholeHoweverTheStreamIsCut) {
  const Secret key = Secret::generate();
  const ByteBuffer stream = frames(key, {"one", "", "three"});
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader(key);
    std::vector<std::string> got;
    for (size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(ConstBytes(stream).subspan(at, std::min(piece, stream.size() - at)));
      while (true) {
        auto frame = reader.next();
        ASSERT_OK(frame);
        if (!frame->has_value()) break;
        got.emplace_back(text_of(**frame));
      }
    }
    EXPECT_THAT(got, ::testing::ElementsAre("one", "", "three"));
  }
}

TEST(Frame, AnyChangedBitIsRefusedAndThenEverything) {
  const Secret key = Secret::generate();
  const ByteBuffer good = frames(key, {"message"});
  for (size_t i = 0; i < good.size(); ++i) {
    ByteBuffer bad = good;
    bad[i] ^= std::byte{1};
    FrameReader reader(key);
    reader.feed(bad);
    reader.feed(ByteBuffer(70'000));  // as many bytes as an increased length announces
    SCOPED_TRACE(i);
    // A change of the highest byte of the length makes it exceed the limit.
    EXPECT_CODE(i == 3 ? StatusCode::kInvalidArgument : StatusCode::kUnauthenticated,
                reader.next());
    reader.feed(good);
    EXPECT_FALSE(reader.next().is_ok());
  }
}

TEST(Frame, RepeatedDroppedOrForeignFrameIsRefused) {
  const Secret key = Secret::generate();
  const ByteBuffer first = frames(key, {"message"});
  const ByteBuffer both = frames(key, {"message", "message"});
  const ConstBytes second = ConstBytes(both).subspan(first.size());

  FrameReader repeated(key);
  repeated.feed(first);
  ASSERT_OK(repeated.next());
  repeated.feed(first);
  EXPECT_CODE(StatusCode::kUnauthenticated, repeated.next());

  FrameReader dropped(key);
  dropped.feed(second);
  EXPECT_CODE(StatusCode::kUnauthenticated, dropped.next());

  FrameReader foreign(Secret::generate());
  foreign.feed(first);
  EXPECT_CODE(StatusCode::kUnauthenticated, foreign.next());
}

TEST(Frame, LengthAboveTheLimitIsRefusedOnBothSides) {
  const Secret key = Secret::generate();
  FrameWriter writer(key, 8);
  ByteBuffer out;
  EXPECT_OK(writer.append(ByteBuffer(8), out));
  EXPECT_CODE(StatusCode::kInvalidArgument, writer.append(ByteBuffer(9), out));
  FrameReader reader(key, 7);
  reader.feed(ConstBytes(out).first(kFrameHeaderSize));  // the header is enough
  const auto refused = reader.next();
  EXPECT_CODE(StatusCode::kInvalidArgument, refused);
  EXPECT_EQ(refused.status().message(), "a frame announces 8 bytes, the limit is 7");
}

}  // namespace
}  // namespace hvd
