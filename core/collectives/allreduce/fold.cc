// SPDX-License-Identifier: Apache-2.0
#include "collectives/allreduce/fold.h"

namespace hvd {

Status fold_in(Transport& transport, const Fold& fold, Bytes data, const Reduction& reduction,
               Deadline deadline) {
  if (fold.partner() < 0) return Status::ok();
  if (!fold.stays()) return transport.send(fold.partner(), data, deadline);
  size_t done = 0;
  const auto add = [&](ConstBytes piece) {
    reduction.combine(data.subspan(done, piece.size()), piece);
    done += piece.size();
    return Status::ok();
  };
  return transport.recv_pieces(fold.partner(), data.size(), reduction.element_size(), add,
                               deadline);
}

Status fold_out(Transport& transport, const Fold& fold, Bytes data, Deadline deadline) {
  if (fold.partner() >= 0) {
    HVD_TRY(fold.stays() ? transport.send(fold.partner(), data, deadline)
                         : transport.recv(fold.partner(), data, deadline));
  }
  return transport.flush(deadline);
}

void combine_by_rank(const Reduction& reduction, Bytes mine, ConstBytes theirs, bool theirs_first) {
  if (!theirs_first) return reduction.combine(mine, theirs);
  const std::byte* const in[] = {theirs.data(), mine.data()};
  reduction.combine_all(mine, in);
}

}  // namespace hvd
