// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric.h"

#include <fmt/format.h>

#include <utility>

#include "transport/fabric/impl.h"

namespace hvd {

Fabric::Fabric(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Fabric::~Fabric() {
  // A forked child has no hvd-net thread, and that thread may have held locks at the time of the
  // fork. So the child cannot destroy the fabric; it leaks the copy.
  if (fork_generation_.in_child()) (void)impl_.release();
}

Result<std::unique_ptr<Fabric>> Fabric::join(const FabricOptions& options, const Secret& secret,
                                             RendezvousClient* rendezvous, Deadline deadline) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return invalid_argument(
        fmt::format("rank {} is not valid in a job of size {}", options.rank, options.size));
  }
  if (options.round.empty() || options.round.size() > kNameLimit / 2) {
    return invalid_argument("the name of the round is empty or too long");
  }
  if (rendezvous == nullptr && options.size > 1) {
    return invalid_argument("a job of several ranks needs a rendezvous server");
  }
  auto impl = std::make_unique<Impl>(options, secret, rendezvous);
  if (const Status joined = impl->join(deadline); !joined.is_ok()) return impl->give_up(joined);
  return std::unique_ptr<Fabric>(new Fabric(std::move(impl)));
}

int Fabric::rank() const { return impl_->rank(); }
const Topology& Fabric::topology() const { return impl_->topology(); }
Health& Fabric::health() { return impl_->health(); }
void Fabric::leave() {
  if (!fork_generation_.in_child()) impl_->leave();
}
std::vector<std::string> Fabric::listening_on() const { return impl_->listening_on(); }

Result<std::unique_ptr<Transport>> Fabric::make_mesh(uint64_t communicator,
                                                     const std::vector<int>& ranks,
                                                     Deadline deadline) {
  return impl_->make_mesh(communicator, ranks, deadline);
}

Result<std::unique_ptr<ControlPlane>> Fabric::make_control(uint64_t communicator, Transport& mesh,
                                                           Deadline deadline) {
  return impl_->make_control(communicator, mesh, deadline);
}

}  // namespace hvd
