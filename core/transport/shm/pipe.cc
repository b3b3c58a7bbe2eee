// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/pipe.h"

#include <algorithm>
#include <bit>

namespace hvd {
namespace {

// The writer publishes after this many bytes, so that the reader copies one part while the writer
// writes the next.
constexpr size_t kPublishEvery = 32 * 1024;

}  // namespace

size_t pipe_capacity(int ranks_on_host) { return ranks_on_host <= 16 ? 128 * 1024 : 32 * 1024; }

PipeOut::PipeOut(Bytes memory, size_t capacity)
    : header_(reinterpret_cast<PipeHeader*>(memory.data())),
      ring_(memory.data() + sizeof(PipeHeader)),
      capacity_(capacity) {
  HVD_CHECK(std::has_single_bit(capacity) && memory.size() >= pipe_bytes(capacity));
}

Result<size_t> PipeOut::write_some(ConstBytes out) {
  const size_t room = capacity_ - static_cast<size_t>(written_ - header_->read.load());
  const size_t total = std::min(out.size(), room);
  for (size_t done = 0; done < total;) {
    const size_t at = written_ & (capacity_ - 1);
    const size_t piece = std::min({total - done, capacity_ - at, kPublishEvery});
    copy_bytes(ring_ + at, out.data() + done, piece);
    done += piece;
    written_ += piece;
    header_->written.raise(written_);
  }
  return total;
}

void PipeOut::sleep(std::chrono::microseconds at_most) {
  const uint64_t read = header_->read.load();
  if (written_ - read == capacity_) header_->read.sleep(read, at_most);
}

PipeIn::PipeIn(Bytes memory, size_t capacity)
    : header_(reinterpret_cast<PipeHeader*>(memory.data())),
      ring_(memory.data() + sizeof(PipeHeader)),
      capacity_(capacity) {
  HVD_CHECK(std::has_single_bit(capacity) && memory.size() >= pipe_bytes(capacity));
}

Result<ConstBytes> PipeIn::peek() {
  const size_t arrived = static_cast<size_t>(header_->written.load() - read_);
  const size_t at = read_ & (capacity_ - 1);
  return ConstBytes(ring_ + at, std::min(arrived, capacity_ - at));
}

void PipeIn::release(size_t bytes) {
  read_ += bytes;
  header_->read.raise(read_);
}

Result<size_t> PipeIn::read_some(Bytes in) {
  size_t done = 0;
  while (done < in.size()) {
    HVD_TRY_ASSIGN(const ConstBytes piece, peek());
    const size_t bytes = std::min({piece.size(), in.size() - done, kPublishEvery});
    if (bytes == 0) break;
    copy_bytes(in.data() + done, piece.data(), bytes);
    release(bytes);
    done += bytes;
  }
  return done;
}

void PipeIn::sleep(std::chrono::microseconds at_most) {
  if (header_->written.load() == read_) header_->written.sleep(read_, at_most);
}

}  // namespace hvd
