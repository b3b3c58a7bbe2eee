// SPDX-License-Identifier: Apache-2.0
#include "collectives/pieces.h"

namespace hvd {

Pieces::Pieces(std::span<const Piece> pieces) : pieces_(pieces) {
  if (pieces.size() > 1) begin_.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    if (pieces.size() > 1) begin_.push_back(total_);
    total_ += piece.bytes;
  }
}

void Pieces::copy_from(size_t offset, std::byte* to, size_t bytes) const {
  for_each(offset, bytes, [&to](const Piece& part) {
    copy_bytes(to, part.in, part.bytes);
    to += part.bytes;
  });
}

void Pieces::copy_to(size_t offset, const std::byte* from, size_t bytes) const {
  for_each(offset, bytes, [&from](const Piece& part) {
    copy_bytes(part.out, from, part.bytes);
    from += part.bytes;
  });
}

}  // namespace hvd
