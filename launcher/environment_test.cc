// SPDX-License-Identifier: Apache-2.0
#include "launcher/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd::launcher {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

const Endpoint kStore = Endpoint::loopback(7000);
const Slot kSlot{"b", 2, 4, 0, 2, 1, 2};

StartRanks job() {
  StartRanks job;
  job.secret = SecretText("hush");
  return job;
}

TEST(Environment, ARankGetsItsSlotAndTheRendezvousServer) {
  EXPECT_THAT(
      rank_environment({}, job(), kSlot, kStore, {}),
      IsSupersetOf({"HOROVOD_RANK=2", "HOROVOD_SIZE=4", "HOROVOD_LOCAL_RANK=0",
                    "HOROVOD_LOCAL_SIZE=2", "HOROVOD_CROSS_RANK=1", "HOROVOD_CROSS_SIZE=2",
                    "HOROVOD_HOSTNAME=b", "HOROVOD_RENDEZVOUS=127.0.0.1:7000",
                    "HOROVOD_GLOO_RENDEZVOUS_ADDR=127.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT=7000",
                    "HOROVOD_CONTROLLER=gloo", "HOROVOD_CPU_OPERATIONS=gloo", "PYTHONUNBUFFERED=1",
                    "_HOROVOD_SECRET_KEY=hush"}));
}

TEST(Environment, JobVariablesOverrideTheHostsAndSlotVariablesOverrideBoth) {
  StartRanks start = job();
  start.environment = {"PATH=/job", "HOROVOD_RANK=7", "PYTHONUNBUFFERED="};
  const auto made = rank_environment({"PATH=/host", "HOME=/me", "_HOROVOD_SECRET_KEY=old"}, start,
                                     kSlot, kStore, {});
  EXPECT_THAT(made, IsSupersetOf({"PATH=/job", "HOME=/me", "HOROVOD_RANK=2",
                                  "PYTHONUNBUFFERED=", "_HOROVOD_SECRET_KEY=hush"}));
  EXPECT_THAT(made, Not(Contains("PATH=/host")));
}

TEST(Environment, InterfacesOfTheCommandLineWinAndLoopbackDoesNot) {
  StartRanks start = job();
  start.environment = {"HOROVOD_GLOO_IFACE=ib0"};
  EXPECT_THAT(rank_environment({}, start, kSlot, kStore, {}),
              Not(Contains(StartsWith("HOROVOD_NETWORK_INTERFACES"))));
  const auto loopback = rank_environment({}, start, kSlot, kStore, {"lo"});
  EXPECT_THAT(loopback, Contains("HOROVOD_GLOO_IFACE=ib0"));
  EXPECT_THAT(loopback, Not(Contains(StartsWith("HOROVOD_NETWORK_INTERFACES"))));
  start.interfaces = {"eth0", "eth1", "eth9"};
  EXPECT_THAT(rank_environment({}, start, kSlot, kStore, {"eth0", "eth1"}),
              IsSupersetOf({"HOROVOD_NETWORK_INTERFACES=eth0,eth1", "HOROVOD_GLOO_IFACE=eth0",
                            "NCCL_SOCKET_IFNAME=eth0,eth1"}));
}

TEST(Environment, TlsIsThatOfTheRendezvousServer) {
  StartRanks start = job();
  start.environment = {"HOROVOD_TLS=1"};
  EXPECT_THAT(rank_environment({}, start, kSlot, kStore, {}), Contains("HOROVOD_TLS=0"));
  start.tls = true;
  EXPECT_THAT(rank_environment({}, start, kSlot, kStore, {}), Contains("HOROVOD_TLS=1"));
}

}  // namespace
}  // namespace hvd::launcher
