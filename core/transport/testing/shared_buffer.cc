// SPDX-License-Identifier: Apache-2.0
#include "transport/testing/shared_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace hvd {

Result<std::unique_ptr<SharedBuffer>> make_shared_buffer(Arena& arena, size_t bytes,
                                                         SegmentKind kind, Deadline deadline) {
  // Rank 0 creates the segment and writes its descriptor into its slot. The other ranks attach and
  // write an empty text or their error into theirs. Then every rank reads all answers.
  constexpr size_t kPage = 4096;
  const int rank = arena.rank();
  const auto put = [&arena, rank](uint64_t turn, const std::string& text) {
    std::byte* to = arena.slot(rank, turn);
    const size_t length = std::min(text.size(), arena.slot_bytes() - 1);
    std::memcpy(to, text.data(), length);
    to[length] = std::byte{0};
    arena.raise(ArenaStage::kFilled, turn);
  };
  const auto text_of = [&arena](int peer, uint64_t turn) {
    const char* text = reinterpret_cast<const char*>(arena.slot(peer, turn));
    return std::string(text, strnlen(text, arena.slot_bytes()));
  };
  const size_t part = round_up(bytes, kPage);
  const uint64_t announce = arena.begin_turns(2);
  const uint64_t answer = announce + 1;

  Result<std::unique_ptr<Segment>> segment = unavailable("not attached");
  HVD_TRY(arena.claim(announce, deadline));
  if (rank == 0) {
    segment = Segment::create(kind, part * static_cast<size_t>(arena.size()));
    put(announce, segment.is_ok() ? (*segment)->descriptor() : "");
  } else {
    put(announce, "");
  }
  HVD_TRY(arena.wait_all(ArenaStage::kFilled, announce, deadline));
  if (rank != 0) {
    const std::string descriptor = text_of(0, announce);
    segment = descriptor.empty() ? Result<std::unique_ptr<Segment>>(unavailable("not created"))
                                 : Segment::attach(descriptor);
  }
  Status made = segment.status();
  if (made.is_ok()) made = Segment::populate((*segment)->memory().subspan(part * rank, part));
  put(answer, made.message());
  HVD_TRY(arena.wait_all(ArenaStage::kFilled, answer, deadline));
  for (int peer = 0; peer < arena.size(); ++peer) {
    if (const std::string error = text_of(peer, answer); !error.empty()) {
      return unavailable(
          fmt::format("shared buffer of {} bytes: local rank {}: {}", bytes, peer, error));
    }
  }
  (*segment)->forget_name();
  // The pages exist by now; this maps them. If it fails they are mapped when first used.
  (void)Segment::populate((*segment)->memory());
  std::vector<Bytes> parts;
  for (int peer = 0; peer < arena.size(); ++peer) {
    parts.push_back((*segment)->memory().subspan(part * static_cast<size_t>(peer), bytes));
  }
  return std::make_unique<SharedBuffer>(std::move(*segment), rank, std::move(parts));
}

}  // namespace hvd
