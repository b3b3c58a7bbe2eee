// SPDX-License-Identifier: Apache-2.0
#include "net/codec.h"

#include <limits>

#include "testing/assertions.h"

namespace hvd {
namespace {

ByteBuffer sample() {
  return Encoder()
      .put(uint8_t{7})
      .put(std::numeric_limits<int64_t>::min())
      .put(true)
      .put("text")
      .put(std::vector<std::string>{"a", ""})
      .put(std::vector<uint16_t>{1, 65535})
      .put(std::vector<ByteBuffer>{{std::byte{9}}})
      .take();
}

struct Sample {
  uint8_t small = 0;
  int64_t wide = 0;
  bool yes = false;
  std::string text;
  std::vector<std::string> texts;
  std::vector<uint16_t> numbers;
  std::vector<ByteBuffer> blobs;

  Status decode(ConstBytes bytes) {
    Decoder decoder(bytes);
    HVD_TRY(decoder.get(small));
    HVD_TRY(decoder.get(wide));
    HVD_TRY(decoder.get(yes));
    HVD_TRY(decoder.get(text));
    HVD_TRY(decoder.get(texts));
    HVD_TRY(decoder.get(numbers));
    HVD_TRY(decoder.get(blobs));
    return decoder.finish();
  }
};

TEST(Codec, DecoderReadsWhatEncoderWrote) {
  Sample read;
  ASSERT_OK(read.decode(sample()));
  EXPECT_EQ(read.small, 7);
  EXPECT_EQ(read.wide, std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(read.yes);
  EXPECT_EQ(read.text, "text");
  EXPECT_THAT(read.texts, ::testing::ElementsAre("a", ""));
  EXPECT_THAT(read.numbers, ::testing::ElementsAre(1, 65535));
  EXPECT_EQ(read.blobs.at(0).at(0), std::byte{9});
}

TEST(Codec, BytesOnTheWireAreLittleEndian) {
  EXPECT_EQ(text_of(Encoder().put(uint32_t{0x01020304}).put("x").bytes()),
            std::string_view("\4\3\2\1\1\0\0\0x", 9));
}

TEST(Codec, RecordThatIsTooShortOrTooLongIsRefusedAtEveryLength) {
  ByteBuffer bytes = sample();
  for (size_t length = 0; length < bytes.size(); ++length) {
    Sample read;
    EXPECT_CODE(StatusCode::kInvalidArgument, read.decode(ConstBytes(bytes).first(length)));
  }
  bytes.push_back(std::byte{0});
  EXPECT_CODE(StatusCode::kInvalidArgument, Sample().decode(bytes));
}

TEST(Codec, CountThatCannotBeTrueCostsNoMemory) {
  const ByteBuffer bytes = Encoder().put(std::numeric_limits<uint32_t>::max()).take();
  std::vector<std::string> texts;
  EXPECT_CODE(StatusCode::kInvalidArgument, Decoder(bytes).get(texts));
  EXPECT_EQ(texts.capacity(), 0u);
  bool yes = false;
  EXPECT_CODE(StatusCode::kInvalidArgument, Decoder(Encoder().put(uint8_t{2}).bytes()).get(yes));
}

}  // namespace
}  // namespace hvd
