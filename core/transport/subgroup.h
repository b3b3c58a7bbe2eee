// SPDX-License-Identifier: Apache-2.0
// Some ranks of a communicator as a communicator of their own: the ranks of one host, or one
// leader per host. Nothing but translated rank numbers; the bytes take the way of the whole.
#pragma once

#include <vector>

#include "transport/transport.h"

namespace hvd {

class SubTransport final : public Transport {
 public:
  // Rank i of the subgroup is rank ranks[i] of `whole`, which outlives it. All different, and the
  // caller is one of them. Every rank that takes part names the same ranks in the same order.
  //
  // Between two ranks there is one stream of bytes, whichever group it is used through, so calls
  // through the group and through the whole have to come in the same order on both.
  SubTransport(Transport& whole, std::vector<int> ranks);

  Status send(int to, ConstBytes out, Deadline deadline) override {
    return whole_.send(ranks_[to], out, deadline);
  }
  Status recv(int from, Bytes in, Deadline deadline) override {
    return whole_.recv(ranks_[from], in, deadline);
  }
  Status recv_pieces(int from, size_t size, size_t unit, Consume consume,
                     Deadline deadline) override {
    return whole_.recv_pieces(ranks_[from], size, unit, consume, deadline);
  }
  Status flush(Deadline deadline) override { return whole_.flush(deadline); }
  // Ends the whole communicator, since a rank that is not in the group may wait for one that is.
  void abort(const Status& reason) override { whole_.abort(reason); }

 private:
  Transport& whole_;
  const std::vector<int> ranks_;
};

}  // namespace hvd
