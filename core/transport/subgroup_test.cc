// SPDX-License-Identifier: Apache-2.0
#include "transport/subgroup.h"

#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "testing/assertions.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using testing::TransportKind;

Deadline soon() { return Deadline::after(20s); }

TEST(SubTransport, MovesBytesBetweenTheRanksItWasGivenInTheirNewOrder) {
  // Ranks 0 to 4 are on hosts 0 1 1 0 2; the subgroup is ranks 4, 0, 3.
  testing::run_ranks(TransportKind::kInprocHosts, 5, [](Transport& whole) -> Status {
    if (whole.rank() == 1 || whole.rank() == 2) return Status::ok();
    const std::vector<int> group{4, 0, 3};
    SubTransport transport(whole, group);
    EXPECT_EQ(transport.size(), 3);
    EXPECT_EQ(group[transport.rank()], whole.rank());
    EXPECT_EQ(transport.topology().hosts(), 2);
    EXPECT_EQ(transport.topology().host_of(1), transport.topology().host_of(2));
    EXPECT_EQ(transport.arena(), nullptr);

    const int right = (transport.rank() + 1) % 3;
    const int left = (transport.rank() + 2) % 3;
    const std::array out{transport.rank(), whole.rank()};
    std::array in{-1, -1};
    HVD_TRY(transport.exchange(right, std::as_bytes(std::span(out)), left,
                               std::as_writable_bytes(std::span(in)), soon()));
    EXPECT_EQ(in, (std::array{left, group[left]}));

    HVD_TRY(transport.send(left, std::as_bytes(std::span(out)), soon()));
    size_t got = 0;
    const auto consume = [&](ConstBytes piece) {
      std::memcpy(reinterpret_cast<std::byte*>(in.data()) + got, piece.data(), piece.size());
      got += piece.size();
      return Status::ok();
    };
    HVD_TRY(transport.recv_pieces(right, sizeof(in), sizeof(int), consume, soon()));
    EXPECT_EQ(in, (std::array{right, group[right]}));
    return transport.flush(soon());
  });
}

TEST(SubTransport, AbortEndsTheWholeCommunicator) {
  const auto outcomes =
      testing::outcomes_of_ranks(TransportKind::kInproc, 3, [](Transport& whole) -> Status {
        if (whole.rank() == 2) {  // not in the group
          std::byte byte;
          return whole.recv(0, {&byte, 1}, soon());
        }
        SubTransport transport(whole, {0, 1});
        if (transport.rank() == 0) transport.abort(aborted("enough"));
        std::byte byte;
        return transport.recv(1 - transport.rank(), {&byte, 1}, soon());
      });
  for (const Status& outcome : outcomes) EXPECT_FALSE(outcome.is_ok());
  EXPECT_THAT(outcomes[2].message(), ::testing::HasSubstr("enough"));
}

}  // namespace
}  // namespace hvd
