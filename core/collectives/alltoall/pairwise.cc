// SPDX-License-Identifier: Apache-2.0
#include "collectives/alltoall/alltoall.h"
#include "collectives/blocks.h"

namespace hvd {
namespace {

// Bytes that a rank may send ahead of the step in which it receives. So small parts are all sent at
// once and cost one latency together, while large parts are sent step by step.
constexpr size_t kAheadBytes = 256 << 10;

}  // namespace

Status pairwise_alltoall(const CollectiveContext& context, ConstBytes in,
                         std::span<const size_t> send_bytes, Bytes out,
                         std::span<const size_t> recv_bytes) {
  const int size = context.size();
  const int rank = context.rank();
  const Blocks to_send(send_bytes);
  const Blocks to_recv(recv_bytes);
  HVD_CHECK(in.size() == to_send.total() && out.size() == to_recv.total());
  HVD_CHECK(to_send.bytes(rank) == to_recv.bytes(rank));

  copy_bytes(to_recv.of(out, rank), to_send.of(in, rank));
  int next = 1;      // the first step whose send has not started
  size_t ahead = 0;  // bytes of sends that were started before their step
  for (int step = 1; step < size; ++step) {
    for (; next < size && (next == step || ahead < kAheadBytes); ++next) {
      const int to = (rank + next) % size;
      HVD_TRY(context.send(to, to_send.of(in, to)));
      ahead += to_send.bytes(to);
    }
    ahead -= to_send.bytes((rank + step) % size);
    const int from = (rank - step + size) % size;
    HVD_TRY(context.recv(from, to_recv.of(out, from)));
  }
  return context.flush();
}

}  // namespace hvd
