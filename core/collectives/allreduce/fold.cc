// SPDX-License-Identifier: Apache-2.0
#include "collectives/allreduce/fold.h"

namespace hvd {

Status fold_in(const CollectiveContext& context, const Fold& fold, Bytes data,
               const Reduction& reduction) {
  if (fold.partner() < 0) return Status::ok();
  if (!fold.stays()) return context.send(fold.partner(), data);
  size_t done = 0;
  const auto add = [&](ConstBytes piece) {
    reduction.combine(data.subspan(done, piece.size()), piece);
    done += piece.size();
    return Status::ok();
  };
  return context.recv_pieces(fold.partner(), data.size(), reduction.element_size(), add);
}

Status fold_out(const CollectiveContext& context, const Fold& fold, Bytes data) {
  if (fold.partner() >= 0) {
    HVD_TRY(fold.stays() ? context.send(fold.partner(), data) : context.recv(fold.partner(), data));
  }
  return context.flush();
}

void combine_by_rank(const Reduction& reduction, Bytes mine, ConstBytes theirs, bool theirs_first) {
  if (!theirs_first) return reduction.combine(mine, theirs);
  const std::byte* const in[] = {theirs.data(), mine.data()};
  reduction.combine_all(mine, in);
}

}  // namespace hvd
