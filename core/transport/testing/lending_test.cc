// SPDX-License-Identifier: Apache-2.0
#include "transport/testing/lending.h"

#include "testing/assertions.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using testing::outcomes_of_ranks;
using testing::TransportKind;

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

// kInprocHosts lends. Rank 0 sends a byte to rank 1 and changes it after `wait`.
std::vector<Status> change_after(const std::function<Status(Transport&)>& wait) {
  return outcomes_of_ranks(TransportKind::kInprocHosts, 3, [&](Transport& transport) -> Status {
    std::byte lent[1]{};
    if (transport.rank() == 0) HVD_TRY(transport.send(1, lent, soon()));
    HVD_TRY(wait(transport));
    lent[0] = std::byte{1};
    return transport.flush(soon());
  });
}

Status send_byte(Transport& transport, int to) {
  const std::byte byte{};
  HVD_TRY(transport.send(to, {&byte, 1}, soon()));
  return transport.flush(soon());
}

Status recv_byte(Transport& transport, int from) {
  std::byte byte{};
  return transport.recv(from, {&byte, 1}, soon());
}

TEST(Lending, MemoryMayChangeAfterAFlush) {
  const auto outcomes = change_after([](Transport& transport) -> Status {
    if (transport.rank() == 1) HVD_TRY(recv_byte(transport, 0));
    return transport.flush(soon());
  });
  for (const Status& outcome : outcomes) EXPECT_OK(outcome);
}

TEST(Lending, MemoryMayChangeOnceThereIsNewsThatItArrivedEvenByAThirdRank) {
  const auto outcomes = change_after([](Transport& transport) -> Status {
    if (transport.rank() == 1) {
      HVD_TRY(recv_byte(transport, 0));
      return send_byte(transport, 2);
    }
    HVD_TRY(recv_byte(transport, (transport.rank() + 2) % 3));
    return transport.rank() == 2 ? send_byte(transport, 0) : Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_OK(outcome);
}

TEST(Lending, ToChangeItAfterAnyOtherMessageIsAnErrorEvenIfItHasArrived) {
  const auto outcomes = change_after([](Transport& transport) -> Status {
    if (transport.rank() == 2) return send_byte(transport, 0);
    if (transport.rank() == 1) return recv_byte(transport, 0);
    return recv_byte(transport, 2);
  });
  EXPECT_CODE(StatusCode::kInternal, outcomes[0]);
  EXPECT_THAT(outcomes[0].message(), ::testing::HasSubstr("rank 0 changed memory"));
}

}  // namespace
}  // namespace hvd
