// SPDX-License-Identifier: Apache-2.0
// A Transport made of links: shared memory to the ranks of the own host, sockets to all others. It
// does the waiting that links do not do: it spins, yields, then sleeps, and while it waits for one
// peer its sends to the others go on.
//
// The fast path takes no lock: a link is looked up once and then is a plain pointer.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "transport/health.h"
#include "transport/link.h"
#include "transport/shm/shm_group.h"
#include "transport/transport.h"
#include "transport/waiting.h"

namespace hvd {

// Where a mesh gets the links to peers that it shares no memory with. Each link has one direction
// and is opened by its sender, so that two ranks which need each other at the same moment never
// have to settle whose connection is kept.
class LinkSource {
 public:
  virtual ~LinkSource() = default;

  // Opens the link to `to` and waits until it can be used. The peer's mesh need not exist yet.
  virtual Result<std::unique_ptr<OutLink>> connect(int to, Deadline deadline) = 0;

  struct Arrival {
    int from;
    std::unique_ptr<InLink> link;
  };
  // The links that peers have opened to us since the last call; cheap when there are none.
  virtual std::vector<Arrival> arrivals() = 0;
  // Readable while arrivals() has something to give.
  virtual int arrivals_descriptor() const = 0;
};

struct MeshOptions {
  std::vector<int> job_ranks;  // by rank of the communicator: the rank that failures name
  WaitPolicy policy;
  bool hosts_share_memory = false;
  // How long a closed link may be explained by a failure that is still on its way to us, before
  // its peer is called lost. The death of the peer itself comes that way too, and sooner.
  std::chrono::milliseconds grace{500};
};

class Mesh final : public Transport {
 public:
  // `shm_group` may be null. `health` outlives the mesh.
  Mesh(int rank, Topology topology, MeshOptions options, Health& health,
       std::unique_ptr<LinkSource> links, std::unique_ptr<ShmGroup> shm_group);
  ~Mesh() override;

  Status send(int to, ConstBytes out, Deadline deadline) override;
  Status recv(int from, Bytes in, Deadline deadline) override;
  Status recv_pieces(int from, size_t size, size_t unit, Consume consume,
                     Deadline deadline) override;
  Status flush(Deadline deadline) override;
  Arena* arena() override { return shm_group_ == nullptr ? nullptr : &shm_group_->arena(); }
  bool hosts_share_memory() const override { return options_.hosts_share_memory; }
  void abort(const Status& reason) override;

 private:
  struct Peer {
    OutLink* out = nullptr;  // null until the first send
    InLink* in = nullptr;    // null until the peer has opened it
    std::deque<ConstBytes> pending;
    std::unique_ptr<OutLink> own_out;  // of links that do not belong to shm_group_
    std::unique_ptr<InLink> own_in;
  };
  struct Wait;
  struct Scratch;

  Status check(int peer) const;
  // Why calls fail, once health_ has failed.
  Status failure() const;
  // Ends the communicator because of `peer`, and returns why it ended.
  Status lose(int peer, const Status& why);

  Status connect(int to, Deadline deadline);
  void take_arrivals();
  // 0 when nothing has arrived, not even the link.
  Result<size_t> read_some(int from, Bytes in);
  // Shared memory is there from the start, so a link that is still to come is a socket.
  bool reads_socket(int from) const;
  // Reads until `in` is full.
  Status fill(int from, Bytes in, size_t still_to_come, Deadline deadline);
  Status pieces_by_copy(int from, size_t size, size_t unit, Consume consume, Deadline deadline);
  Status pieces_in_place(int from, size_t size, size_t unit, Consume consume, Deadline deadline);
  Status hand_over(ConstBytes piece, int from, Consume consume);

  // Writes what fits of the pending sends.
  Status progress();
  Status write_pending(int to);

  // One look at the clock, the peers and the links after a look at the condition was in vain.
  Status pause(Wait& wait);
  Status look(Wait& wait);
  Status look_at_host(Wait& wait);
  void sleep(const Wait& wait);
  void note_progress() {
    moved_ = true;
    health_.note_progress();
  }

  const MeshOptions options_;
  Health& health_;
  const std::unique_ptr<LinkSource> links_;
  const std::unique_ptr<ShmGroup> shm_group_;
  std::atomic<bool> aborted_{false};  // by abort() on this rank

  // The caller's thread only.
  std::vector<Peer> peers_;
  bool moved_ = false;                // data, since the last look at the clock
  std::vector<int> busy_;             // peers with pending sends
  std::vector<pollfd> polled_;        // working memory of sleep()
  std::unique_ptr<Scratch> scratch_;  // made by the first receive that needs it
};

}  // namespace hvd
