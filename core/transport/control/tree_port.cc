// SPDX-License-Identifier: Apache-2.0
#include "transport/control/tree_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/control/messages.h"
#include "transport/shm/arena.h"

namespace hvd {
namespace {

// A neighbour that fails because of another rank closes its port, which may be seen here before the
// failure itself. So long the failure may take, before the neighbour is called lost.
constexpr std::chrono::milliseconds kGrace{500};

}  // namespace

TreePort::TreePort(ControlTree tree, std::vector<Neighbour> neighbours, Bell& bell,
                   std::unique_ptr<Bell> own_bell, Arena* arena, Health& health)
    : ControlPort(std::move(tree)),
      own_bell_(std::move(own_bell)),
      neighbours_(std::move(neighbours)),
      bell_(bell),
      arena_(arena),
      health_(health),
      listener_(health, [&bell](const Status&) { bell.ring(Urgency::kUrgent); }) {}

Status TreePort::fail(const Status& why) {
  if (failure_.is_ok()) failure_ = why;
  return failure_;
}

Status TreePort::send(int to, ConstBytes message, Urgency urgency) {
  if (health_.failed()) return fail(health_.status());
  HVD_TRY(failure_);
  HVD_TRY(check_message_size(message.size()));
  const auto found = std::find_if(neighbours_.begin(), neighbours_.end(),
                                  [to](const Neighbour& each) { return each.rank == to; });
  HVD_CHECK(found != neighbours_.end());
  const Status sent = found->edge->send(message, urgency);
  return sent.is_ok() ? sent : fail(peer_lost(found->name, sent.message()));
}

Result<int> TreePort::receive(Take take) {
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
    // Whatever it sent cannot be understood, and nothing that follows either.
    if (!received.is_ok()) return fail(peer_lost(neighbour.name, received.status().message()));
    count += *received;
  }
  return count;
}

Status TreePort::check() {
  if (health_.failed()) return fail(health_.status());
  HVD_TRY(failure_);
  if (arena_ != nullptr) {
    if (const Status whole = arena_->check(); !whole.is_ok()) return fail(whole);
  }
  for (Neighbour& neighbour : neighbours_) HVD_TRY(check_neighbour(neighbour));
  return Status::ok();
}

Status TreePort::check_neighbour(Neighbour& neighbour) {
  if (!neighbour.edge->closed()) return Status::ok();
  if (!neighbour.missed_from.has_value()) neighbour.missed_from = Deadline::after(kGrace);
  if (!neighbour.missed_from->expired()) return Status::ok();
  return fail(peer_lost(neighbour.name, "it left the job"));
}

void TreePort::arm() {
  for (const Neighbour& neighbour : neighbours_) neighbour.edge->arm();
}

bool TreePort::drained() const {
  return std::all_of(neighbours_.begin(), neighbours_.end(),
                     [](const Neighbour& each) { return each.edge->drained(); });
}

bool TreePort::drained_below() const {
  return std::all_of(neighbours_.begin(), neighbours_.end(), [this](const Neighbour& each) {
    return each.rank == tree().parent || each.edge->drained();
  });
}

}  // namespace hvd
