// SPDX-License-Identifier: Apache-2.0
// A Transport that consists of links. Providers make the links: shared memory to the ranks of this
// host, sockets to all other ranks. Mesh does the waiting: it spins, yields, then sleeps. While it
// waits for one peer, its sends to the other peers continue.
//
// The fast path takes no lock: a link is looked up once, and later used through a plain pointer.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "transport/health.h"
#include "transport/link.h"
#include "transport/link_provider.h"
#include "transport/transport.h"
#include "transport/waiting.h"

namespace hvd {

struct MeshOptions {
  std::vector<int> job_ranks;  // by rank of the communicator: the rank that failures name
  WaitPolicy policy;
  bool hosts_share_memory = false;  // see Transport
  // A peer often closes its link because another rank has failed, and the message about that
  // failure has not arrived here yet. The mesh waits this long for a message about a failure before
  // it reports the peer as lost. If the peer itself has died, the message about its death arrives
  // sooner.
  std::chrono::milliseconds grace{500};
};

// Threads: as for Transport, one caller at a time; abort() from any thread. Any failure of a mesh
// fails `health`, and so all meshes of the process.
class Mesh final : public Transport {
 public:
  // `providers` are in order of preference: the first provider that reaches a peer makes its links.
  // At least one provider reaches each peer. `health` must outlive the mesh.
  Mesh(int rank, Topology topology, MeshOptions options, Health& health,
       std::vector<std::unique_ptr<LinkProvider>> providers);
  ~Mesh() override;

  Status send(int to, ConstBytes out, Deadline deadline) override;
  Status recv(int from, Bytes in, Deadline deadline) override;
  Status recv_pieces(int from, size_t size, size_t unit, Consume consume,
                     Deadline deadline) override;
  Status flush(Deadline deadline) override;
  Arena* arena() override { return arena_; }
  bool hosts_share_memory() const override { return options_.hosts_share_memory; }
  void abort(const Status& reason) override;

 private:
  struct Peer {
    OutLink* out = nullptr;  // null until the first send
    InLink* in = nullptr;    // null until the peer has opened it
    std::deque<ConstBytes> pending;
    LinkProvider* provider = nullptr;  // owns both links; null for this rank
  };
  struct Wait;
  struct Scratch;

  Status check(int peer) const;
  // Called once health_ has failed: the status that calls return. It is kAborted on the rank that
  // called abort().
  Status failure() const;
  // Ends the communicator because of `peer`, and returns the first failure of the job.
  Status lose(int peer, const Status& why);

  // Looks up the link to `to`, which may open a connection.
  Status connect(int to, Deadline deadline);
  // Stores the links that peers have opened since the last call.
  void take_arrivals(LinkProvider& provider);
  // 0 when no bytes have arrived, or the peer has not opened its link yet.
  Result<size_t> read_some(int from, Bytes in);
  // Links in shared memory exist from the start, so a link that does not exist yet will be a
  // socket.
  bool reads_socket(int from) const;
  // Reads until `in` is full.
  Status fill(int from, Bytes in, size_t still_to_come, Deadline deadline);
  // recv_pieces() through the scratch, or directly from the memory of a link that can peek.
  Status pieces_by_copy(int from, size_t size, size_t unit, Consume consume, Deadline deadline);
  Status pieces_in_place(int from, size_t size, size_t unit, Consume consume, Deadline deadline);
  Status hand_over(ConstBytes piece, int from, Consume consume);

  // Writes as much of the pending sends as fits now.
  Status progress();
  Status write_pending(int to);

  // One step of a wait, after the condition was found false: spins, yields or sleeps.
  Status pause(Wait& wait);
  // Checks the health, the providers, the peer and the limit of a wait.
  Status look(Wait& wait);
  Status look_at_providers(Wait& wait);
  void sleep(const Wait& wait);
  void note_progress() {
    moved_ = true;
    health_.note_progress();
  }

  const MeshOptions options_;
  Health& health_;
  const std::vector<std::unique_ptr<LinkProvider>> providers_;
  Arena* arena_ = nullptr;            // of the provider that has one
  std::atomic<bool> aborted_{false};  // by abort() on this rank

  // The caller's thread only.
  std::vector<Peer> peers_;
  bool moved_ = false;                // data were moved since the last look at the clock
  std::vector<int> busy_;             // peers with pending sends
  std::vector<pollfd> polled_;        // working memory of sleep()
  std::unique_ptr<Scratch> scratch_;  // made by the first receive that needs it
};

}  // namespace hvd
