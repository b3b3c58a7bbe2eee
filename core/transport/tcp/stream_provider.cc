// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/stream_provider.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/tagged_stream.h"
#include "transport/tcp/stream_links.h"

namespace hvd {

std::unique_ptr<OutLink> make_stream_out(AuthenticatedStream peer, bool tags) {
  if (!tags) return std::make_unique<StreamOut>(std::move(peer.stream));
  return std::make_unique<StreamOut>(
      std::make_unique<TaggedStream>(std::move(peer.stream), peer.keys));
}

std::unique_ptr<InLink> make_stream_in(AuthenticatedStream peer, bool tags, std::string way) {
  if (!tags) return std::make_unique<StreamIn>(std::move(peer.stream), std::move(way));
  return std::make_unique<TaggedIn>(
      std::make_unique<TaggedStream>(std::move(peer.stream), peer.keys), std::move(way));
}

StreamProvider::StreamProvider(std::vector<int> job_ranks, std::shared_ptr<Inbox> inbox, Open open,
                               std::function<void()> on_close)
    : job_ranks_(std::move(job_ranks)),
      inbox_(std::move(inbox)),
      open_(std::move(open)),
      on_close_(std::move(on_close)) {}

StreamProvider::~StreamProvider() {
  in_.clear();
  out_.clear();
  if (!fork_generation_.in_child()) on_close_();
}

Result<OutLink*> StreamProvider::connect(int to, Deadline deadline) {
  HVD_TRY_ASSIGN(auto link, open_(job_ranks_[to], deadline));
  return out_.emplace_back(std::move(link)).get();
}

std::vector<LinkProvider::Arrival> StreamProvider::arrivals() {
  std::vector<Arrival> arrived;
  for (Inbox::Item& item : inbox_->take()) {
    const auto found = std::find(job_ranks_.begin(), job_ranks_.end(), item.from);
    if (found == job_ranks_.end()) {
      HVD_LOG(kWarning, "refused rank {}: it does not belong to this communicator", item.from);
      continue;
    }
    InLink* link = in_.emplace_back(std::move(item.link)).get();
    arrived.push_back({static_cast<int>(found - job_ranks_.begin()), link});
  }
  return arrived;
}

}  // namespace hvd
