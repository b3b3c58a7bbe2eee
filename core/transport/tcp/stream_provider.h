// SPDX-License-Identifier: Apache-2.0
// The links of a communicator over stream sockets: TCP between hosts, Unix sockets within one. Each
// link is a connection of its own. The sender opens it when it first sends; the receiver finds it
// in its inbox, where the network thread has put it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_generation.h"
#include "net/stream.h"
#include "transport/link_provider.h"
#include "transport/tcp/inbox.h"

namespace hvd {

// Data links over a new connection. `tags`: every record has a tag (net/tagged_stream.h). `way`
// names the hosts at both ends, for the message about changed bytes.
std::unique_ptr<OutLink> make_stream_out(AuthenticatedStream peer, bool tags);
std::unique_ptr<InLink> make_stream_in(AuthenticatedStream peer, bool tags, std::string way);

// Reaches every peer. Threads and failures: see LinkProvider.
class StreamProvider final : public LinkProvider {
 public:
  // Opens the link to a rank, which is one of the job. May wait until the deadline.
  using Open = std::function<Result<std::unique_ptr<OutLink>>(int job_rank, Deadline deadline)>;

  // `job_ranks` are the ranks of the communicator. `on_close` is called by the destructor, after
  // the links are closed, but not in a forked child. The objects that `open` and `on_close` use
  // must outlive the provider.
  StreamProvider(std::vector<int> job_ranks, std::shared_ptr<Inbox> inbox, Open open,
                 std::function<void()> on_close);
  ~StreamProvider() override;

  bool reaches(int /*peer*/) const override { return true; }
  Result<OutLink*> connect(int to, Deadline deadline) override;
  std::vector<Arrival> arrivals() override;
  int arrivals_descriptor() const override { return inbox_->descriptor(); }

 private:
  const std::vector<int> job_ranks_;
  const std::shared_ptr<Inbox> inbox_;
  const Open open_;
  const std::function<void()> on_close_;
  const ForkGeneration fork_generation_;
  std::vector<std::unique_ptr<OutLink>> out_;
  std::vector<std::unique_ptr<InLink>> in_;
};

}  // namespace hvd
