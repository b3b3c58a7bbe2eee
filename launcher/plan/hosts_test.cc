// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/hosts.h"

#include "launcher/plan/assignment.h"
#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Hosts, AListNamesHostsAndSlots) {
  EXPECT_THAT(*parse_host_list("h1:2, n-1.example_x:14,[::1]:3,10.0.0.1:1"),
              ElementsAre(HostSlots{"h1", 2}, HostSlots{"n-1.example_x", 14}, HostSlots{"::1", 3},
                          HostSlots{"10.0.0.1", 1}));
}

TEST(Hosts, SlotsOfTheSameHostAddUpAtItsFirstPosition) {
  EXPECT_THAT(*parse_host_list("a:1,b:2,a:3,c:0"),
              ElementsAre(HostSlots{"a", 4}, HostSlots{"b", 2}));
  EXPECT_THAT(*parse_host_file("a\na\nb slots=2\na\n", "f"),
              ElementsAre(HostSlots{"a", 3}, HostSlots{"b", 2}));
}

TEST(Hosts, MalformedListsAreRejected) {
  for (const char* bad :
       {"", "h1", "h1:", "h1:x", "h1:-1", "h1:2,,h2:2", "h 1:2", "h1:2:3", "::1:2", "[::1]",
        "[::1:2", "[nonsense]:2", "-oProxyCommand=x:1", "h1;ls:1", "h1:99999999999"}) {
    EXPECT_FALSE(parse_host_list(bad).is_ok()) << bad;
  }
  EXPECT_EQ(parse_host_list("h1:1,h2").status().message(),
            "\"h2\": accepted is host:slots, as in h1:4,h2:4 or [::1]:4");
  EXPECT_THAT(parse_host_list("fe80::1:2").status().message(), HasSubstr("written in brackets"));
}

TEST(Hosts, AFileMayHaveBlankLinesCommentsAndEveryFormOfSlots) {
  const char* text =
      "# our hosts\n"
      "\n"
      "h1 slots=4\n"
      "  h2\tslots = 2   # the old one\r\n"
      "h3:5\n"
      "h4\n"
      "h5 slots=1 max_slots=8\n"
      "[::1] slots=6\n"
      "[::2]:7\n"
      "launcher slots=0";
  EXPECT_THAT(
      *parse_host_file(text, "f"),
      ElementsAre(HostSlots{"h1", 4}, HostSlots{"h2", 2}, HostSlots{"h3", 5}, HostSlots{"h4", 1},
                  HostSlots{"h5", 1}, HostSlots{"::1", 6}, HostSlots{"::2", 7}));
}

TEST(Hosts, AMistakeInAFileIsNamedWithItsLine) {
  EXPECT_EQ(parse_host_file("h1 slots=2\nh2 slots=two\n", "f").status().message(),
            "f:2: \"h2 slots=two\": accepted is a host and its slots, as in \"h1 slots=4\" or "
            "\"h1:4\"");
  EXPECT_THAT(parse_host_file("h1 4\n", "f").status().message(), HasSubstr("f:1"));
  EXPECT_THAT(parse_host_file("fe80::1 slots=2\n", "f").status().message(),
              HasSubstr("written in brackets"));
  EXPECT_EQ(parse_host_file("# none\n", "f").status().message(), "f: there is no host in it");
}

TEST(Hosts, AreWrittenAsTheyAreRead) {
  const std::string text = "h1:2,[::1]:3";
  EXPECT_EQ(to_string(*parse_host_list(text)), text);
}

std::string place(const Slot& slot) {
  return slot.host + " " + std::to_string(slot.rank) + "/" + std::to_string(slot.size) + " local " +
         std::to_string(slot.local_rank) + "/" + std::to_string(slot.local_size) + " cross " +
         std::to_string(slot.cross_rank) + "/" + std::to_string(slot.cross_size);
}

std::vector<std::string> places(const std::vector<HostSlots>& hosts, int num_proc) {
  std::vector<std::string> result;
  const auto slots = assign_slots(hosts, num_proc);
  EXPECT_OK(slots);
  for (const Slot& slot : *slots) result.push_back(place(slot));
  return result;
}

TEST(Assignment, FillsHostsInOrderAndCountsAcrossTheHostsThatHaveASlot) {
  EXPECT_THAT(places({{"a", 1}, {"b", 3}, {"c", 2}}, 6),
              ElementsAre("a 0/6 local 0/1 cross 0/3", "b 1/6 local 0/3 cross 1/3",
                          "b 2/6 local 1/3 cross 0/2", "b 3/6 local 2/3 cross 0/1",
                          "c 4/6 local 0/2 cross 2/3", "c 5/6 local 1/2 cross 1/2"));
}

TEST(Assignment, UsesNoMoreSlotsThanThereAreProcesses) {
  EXPECT_THAT(places({{"a", 2}, {"b", 4}, {"c", 4}}, 3),
              ElementsAre("a 0/3 local 0/2 cross 0/2", "a 1/3 local 1/2 cross 0/1",
                          "b 2/3 local 0/1 cross 1/2"));
}

TEST(Assignment, MoreProcessesThanSlotsAreRefused) {
  const auto slots = assign_slots({{"a", 2}, {"b", 1}}, 4);
  EXPECT_CODE(StatusCode::kInvalidArgument, slots);
  EXPECT_EQ(slots.status().message(),
            "Requested more processes (4) than there are slots (3 in a:2,b:1): lower -np or add "
            "slots");
}

}  // namespace
}  // namespace hvd::launcher
