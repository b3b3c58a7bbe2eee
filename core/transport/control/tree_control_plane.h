// SPDX-License-Identifier: Apache-2.0
// The ControlPlane of a rank: combines edges of any kind to its neighbours in the control tree.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "transport/control/control_plane.h"
#include "transport/control/edge.h"
#include "transport/health.h"

namespace hvd {

// Threads and failures: see ControlPlane. Owns its edges.
class TreeControlPlane final : public ControlPlane {
 public:
  struct Neighbour {
    int rank;      // in the communicator
    int job_rank;  // in the job: the rank that failures name
    std::unique_ptr<ControlEdge> edge;
    std::optional<Deadline> missed_from = std::nullopt;  // set once the other end is closed
  };

  // `own_doorbell` owns `doorbell`, or is null when `doorbell` lives in shared memory. `check_host`
  // returns ok, or why the ranks of this host can no longer work together; it is empty when they
  // share no memory. Everything it refers to, `doorbell` and `health` must outlive the control
  // plane.
  TreeControlPlane(ControlTree tree, std::vector<Neighbour> neighbours, Doorbell& doorbell,
                   std::unique_ptr<Doorbell> own_doorbell, std::function<Status()> check_host,
                   Health& health);

  Status send(int to, ConstBytes message, Urgency urgency) override;
  Result<int> receive(Take take) override;
  Status check() override;
  void arm() override;
  bool drained() const override;
  bool drained_below() const override;
  Doorbell& doorbell() override { return doorbell_; }

 private:
  // Keeps the first failure and returns it.
  Status fail(const Status& why);
  Status check_neighbour(Neighbour& neighbour);

  const std::unique_ptr<Doorbell> own_doorbell_;  // first, so that it outlives the edges
  std::vector<Neighbour> neighbours_;
  Doorbell& doorbell_;
  const std::function<Status()> check_host_;
  Health& health_;
  Status failure_;
  const Health::Listener listener_;
};

}  // namespace hvd
