// SPDX-License-Identifier: Apache-2.0
#include "transport/control/tree_control_plane.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/control/messages.h"

namespace hvd {
namespace {

// A neighbour that fails because of another rank closes its control plane. This rank may see that
// before it receives the failure. If it receives no failure within this time, the neighbour counts
// as lost.
constexpr std::chrono::milliseconds kGrace{500};

}  // namespace

TreeControlPlane::TreeControlPlane(ControlTree tree, std::vector<Neighbour> neighbours,
                                   Doorbell& doorbell, std::unique_ptr<Doorbell> own_doorbell,
                                   std::function<Status()> check_host, Health& health)
    : ControlPlane(std::move(tree)),
      own_doorbell_(std::move(own_doorbell)),
      neighbours_(std::move(neighbours)),
      doorbell_(doorbell),
      check_host_(std::move(check_host)),
      health_(health),
      listener_(health, [&doorbell](const Status&) { doorbell.ring(Urgency::kUrgent); }) {}

Status TreeControlPlane::fail(const Status& why) {
  if (failure_.is_ok()) failure_ = why;
  return failure_;
}

Status TreeControlPlane::send(int to, ConstBytes message, Urgency urgency) {
  if (health_.failed()) return fail(health_.status());
  HVD_TRY(failure_);
  HVD_TRY(check_message_size(message.size()));
  const auto found = std::find_if(neighbours_.begin(), neighbours_.end(),
                                  [to](const Neighbour& each) { return each.rank == to; });
  HVD_CHECK(found != neighbours_.end());
  const Status sent = found->edge->send(message, urgency);
  return sent.is_ok() ? sent : fail(peer_lost(found->job_rank, sent.message()));
}

Result<int> TreeControlPlane::receive(Take take) {
  if (health_.failed()) return fail(health_.status());
  HVD_TRY(failure_);
  int count = 0;
  for (Neighbour& neighbour : neighbours_) {
    Status refused;
    const auto received = neighbour.edge->receive([&](ConstBytes message) {
      refused = take(neighbour.rank, message);
      return refused;
    });
    if (!refused.is_ok()) return fail(refused);
    // These bytes of the neighbour cannot be interpreted, so later bytes cannot either.
    if (!received.is_ok()) return fail(peer_lost(neighbour.job_rank, received.status().message()));
    count += *received;
  }
  return count;
}

Status TreeControlPlane::check() {
  if (health_.failed()) return fail(health_.status());
  HVD_TRY(failure_);
  if (check_host_) {
    if (const Status whole = check_host_(); !whole.is_ok()) return fail(whole);
  }
  for (Neighbour& neighbour : neighbours_) HVD_TRY(check_neighbour(neighbour));
  return Status::ok();
}

Status TreeControlPlane::check_neighbour(Neighbour& neighbour) {
  if (!neighbour.edge->closed()) return Status::ok();
  if (!neighbour.missed_from.has_value()) neighbour.missed_from = Deadline::after(kGrace);
  if (!neighbour.missed_from->expired()) return Status::ok();
  return fail(peer_lost(neighbour.job_rank, "it left the job"));
}

void TreeControlPlane::arm() {
  for (const Neighbour& neighbour : neighbours_) neighbour.edge->arm();
}

bool TreeControlPlane::drained() const {
  return std::all_of(neighbours_.begin(), neighbours_.end(),
                     [](const Neighbour& each) { return each.edge->drained(); });
}

bool TreeControlPlane::drained_below() const {
  return std::all_of(neighbours_.begin(), neighbours_.end(), [this](const Neighbour& each) {
    return each.rank == tree().parent || each.edge->drained();
  });
}

}  // namespace hvd
