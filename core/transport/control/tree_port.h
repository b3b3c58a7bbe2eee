// SPDX-License-Identifier: Apache-2.0
// The ControlPort of a rank whose neighbours in the tree are reached by any kind of edge.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "transport/control/edge.h"
#include "transport/control/port.h"
#include "transport/health.h"

namespace hvd {

class Arena;

class TreePort final : public ControlPort {
 public:
  struct Neighbour {
    int rank;  // in the communicator
    int name;  // in the job: the rank that failures name
    std::unique_ptr<ControlEdge> edge;
    std::optional<Deadline> missed_from = std::nullopt;  // set once the other end is closed
  };

  // `own_bell` keeps `bell` unless that lives elsewhere; `arena` may be null. Arena, bell and
  // health outlive the port.
  TreePort(ControlTree tree, std::vector<Neighbour> neighbours, Bell& bell,
           std::unique_ptr<Bell> own_bell, Arena* arena, Health& health);

  Status send(int to, ConstBytes message, Urgency urgency) override;
  Result<int> receive(Take take) override;
  Status check() override;
  void arm() override;
  bool drained() const override;
  bool drained_below() const override;
  Bell& bell() override { return bell_; }

 private:
  // Keeps the first failure.
  Status fail(const Status& why);
  Status check_neighbour(Neighbour& neighbour);

  const std::unique_ptr<Bell> own_bell_;  // first, because edges ring it
  std::vector<Neighbour> neighbours_;
  Bell& bell_;
  Arena* const arena_;
  Health& health_;
  Status failure_;
  const Health::Listener listener_;
};

}  // namespace hvd
