// SPDX-License-Identifier: Apache-2.0
#include "transport/control/messages.h"

#include <string>
#include <vector>

#include "testing/assertions.h"

namespace hvd {
namespace {

ByteBuffer stream_of(const std::vector<std::string>& messages) {
  ByteBuffer stream;
  for (const std::string& message : messages) {
    ByteBuffer header(kMessageHeader);
    put_length(message.size(), header);
    stream.insert(stream.end(), header.begin(), header.end());
    const ConstBytes text = bytes_of(message);
    stream.insert(stream.end(), text.begin(), text.end());
  }
  return stream;
}

TEST(MessageCutter, FindsTheSameMessagesInAnyPieces) {
  const std::vector<std::string> sent{"", "a", std::string(300, 'b'), "", "cd"};
  const ByteBuffer stream = stream_of(sent);
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    MessageCutter cutter;
    std::vector<std::string> got;
    size_t count = 0;
    for (size_t at = 0; at < stream.size(); at += piece) {
      const auto fed =
          cutter.feed(ConstBytes(stream).subspan(at, std::min(piece, stream.size() - at)),
                      [&](ConstBytes message) {
                        got.emplace_back(text_of(message));
                        return Status::ok();
                      });
      ASSERT_OK(fed);
      count += static_cast<size_t>(*fed);
    }
    EXPECT_EQ(got, sent) << "in pieces of " << piece;
    EXPECT_EQ(count, sent.size());
  }
}

TEST(MessageCutter, RefusesALengthAboveTheLimitAsSoonAsItIsKnown) {
  const ByteBuffer stream = stream_of({"four", "five!"});
  for (const size_t piece : {size_t{1}, stream.size()}) {
    MessageCutter cutter(4);
    int taken = 0;
    Status failure;
    for (size_t at = 0; at < stream.size() - 5 && failure.is_ok(); at += piece) {
      failure = cutter
                    .feed(ConstBytes(stream).subspan(at, std::min(piece, stream.size() - at)),
                          [&](ConstBytes) { return ++taken, Status::ok(); })
                    .status();
    }
    EXPECT_CODE(StatusCode::kInvalidArgument, failure);
    EXPECT_EQ(taken, 1);
  }
}

}  // namespace
}  // namespace hvd
