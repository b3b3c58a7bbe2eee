// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/record_ring.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "testing/assertions.h"

namespace hvd {
namespace {

bool push(RecordRing& ring, size_t bytes, uint8_t fill) {
  std::byte* to = ring.reserve(bytes);
  if (to == nullptr) return false;
  std::fill_n(to, bytes, std::byte{fill});
  ring.commit();
  return true;
}

TEST(RecordRing, RefusesWhatDoesNotFitAndTakesItOnceThereIsRoom) {
  RecordRing ring(64);
  EXPECT_TRUE(ring.empty());
  EXPECT_TRUE(push(ring, 24, 1));
  EXPECT_FALSE(ring.is_half_full() && ring.empty());
  EXPECT_TRUE(push(ring, 24, 2));
  EXPECT_TRUE(ring.is_half_full());
  EXPECT_FALSE(push(ring, 1, 3));
  ring.pop();
  EXPECT_TRUE(push(ring, 1, 3));
  EXPECT_EQ(ring.front()[0], std::byte{2});
  ring.pop();
  EXPECT_EQ(ring.front().size(), 1u);
  ring.pop();
  EXPECT_TRUE(ring.empty());
  EXPECT_TRUE(ring.front().empty());
}

TEST(RecordRing, CarriesRecordsOfAllSizesInOrderFromThreadToThread) {
  constexpr int kRecords = 20'000;
  RecordRing ring(1024);
  std::thread producer([&ring] {
    for (int i = 0; i < kRecords;) {
      if (push(ring, static_cast<size_t>(1 + i % 200), static_cast<uint8_t>(i))) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (int i = 0; i < kRecords;) {
    const auto record = ring.front();
    if (record.empty()) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(record.size(), static_cast<size_t>(1 + i % 200));
    ASSERT_TRUE(std::ranges::all_of(
        record, [i](std::byte byte) { return byte == std::byte{static_cast<uint8_t>(i)}; }));
    ring.pop();
    ++i;
  }
  producer.join();
}

}  // namespace
}  // namespace hvd
