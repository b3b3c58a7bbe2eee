// SPDX-License-Identifier: Apache-2.0
// Some ranks of a communicator as a smaller communicator: the ranks of one host, or one rank of
// each host. It only translates rank numbers. The bytes use the links of the whole communicator.
#pragma once

#include <vector>

#include "transport/transport.h"

namespace hvd {

// Threads and failures: as for the whole communicator. Has no arena.
class SubTransport final : public Transport {
 public:
  // Rank i of the subgroup is rank ranks[i] of `whole`, which must outlive the subgroup. `ranks`
  // are all different and include the caller. Every member passes the same ranks in the same order.
  //
  // Between two ranks there is one stream of bytes, which the subgroup and the whole communicator
  // share. So both ranks must make their calls through the two transports in the same order.
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
  // Ends the whole communicator, since a rank outside the subgroup may wait for a member.
  void abort(const Status& reason) override { whole_.abort(reason); }

 private:
  Transport& whole_;
  const std::vector<int> ranks_;
};

}  // namespace hvd
