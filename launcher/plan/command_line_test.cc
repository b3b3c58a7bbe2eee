// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/command_line.h"

#include <set>

#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Words = std::vector<std::string>;

// The options of these arguments, followed by a command.
Options read(Words words) {
  words.insert(words.end(), {"python", "train.py"});
  const auto line = parse_command_line(words);
  EXPECT_OK(line);
  if (!line.is_ok()) return {};
  EXPECT_THAT(line->command, ElementsAre("python", "train.py")) << words[0];
  return line->options;
}

std::string complaint(Words words) {
  words.emplace_back("python");
  const auto line = parse_command_line(words);
  EXPECT_CODE(StatusCode::kInvalidArgument, line);
  return line.status().message();
}

TEST(CommandLine, ValuesFollowInEveryWayThatScriptsWriteThem) {
  const std::vector<Words> four = {{"-np", "4"},        {"-np=4"},           {"-np4"},
                                   {"--num-proc", "4"}, {"--num-proc=4"},    {"--num-p", "4"},
                                   {"-n", "4"},         {"-np", "8", "-np4"}};
  for (const Words& words : four) EXPECT_EQ(read(words).num_proc, 4) << words[0];
  for (const Words& words : {Words{"-H", "h:2"}, {"-Hh:2"}, {"-H=h:2"}, {"--hosts=h:2"}}) {
    EXPECT_EQ(read(words).hosts, "h:2") << words[0];
  }
  EXPECT_EQ(read({"-p22"}).ssh_port, 22);
  EXPECT_EQ(read({"-hostfile", "f"}).hostfile, "f");
  EXPECT_EQ(read({"--slots", "2"}).slots_per_host, 2);
  EXPECT_TRUE(*read({"-prefix-timestamp"}).prefix_timestamp);
  EXPECT_EQ(read({"--mpi-args=-x A"}).mpi_args, "-x A");
  EXPECT_EQ(read({"--mpi-args", "-x A"}).mpi_args, "-x A");
  EXPECT_EQ(read({"--blacklist-cooldown-range", "10", "20"}).cooldown_range, (std::array{10, 20}));
}

TEST(CommandLine, EverythingFromTheFirstOtherWordOnIsTheCommand) {
  const auto line = parse_command_line({"-np", "2", "python", "-np", "3", "--", "--hosts"});
  ASSERT_OK(line);
  EXPECT_EQ(line->options.num_proc, 2);
  EXPECT_THAT(line->command, ElementsAre("python", "-np", "3", "--", "--hosts"));
  EXPECT_THAT(parse_command_line({"-np", "2", "--", "--odd", "--"})->command,
              ElementsAre("--odd", "--"));
  EXPECT_THAT(parse_command_line({"-np", "2", "-"})->command, ElementsAre("-"));
  EXPECT_THAT(parse_command_line({"-np", "2"})->command, IsEmpty());
}

TEST(CommandLine, HelpVersionAndCheckBuildEndIt) {
  EXPECT_TRUE(parse_command_line({"-np", "2", "-h", "--nonsense"})->options.help);
  EXPECT_TRUE(parse_command_line({"--vers", "--nonsense"})->options.version);
  EXPECT_TRUE(parse_command_line({"-cb", "--nonsense"})->options.check_build);
}

TEST(CommandLine, SwitchesAreOnOffOrNotMentioned) {
  EXPECT_EQ(read({"--verbose"}).autotune, std::nullopt);
  EXPECT_EQ(read({"--autotune"}).autotune, true);
  EXPECT_EQ(read({"--no-autotune"}).autotune, false);
  EXPECT_EQ(read({"--stall-check"}).no_stall_check, false);
  EXPECT_EQ(read({"--log-hide-timestamp"}).log_without_timestamp, true);
  EXPECT_EQ(read({"--no-log-hide-timestamp"}).log_without_timestamp, false);
}

TEST(CommandLine, InterfacesAddUp) {
  const auto line = parse_command_line({"--network-interfaces", "eth0,eth1",
                                        "--network-interface=ib0", "--network-interfaces=eth1"});
  EXPECT_THAT(line->options.interfaces, ElementsAre("eth0", "eth1", "ib0"));
  EXPECT_THAT(line->warnings, IsEmpty());
  EXPECT_THAT(parse_command_line({"--network-interface", "a,b"})->warnings,
              ElementsAre(HasSubstr("write --network-interfaces")));
}

TEST(CommandLine, MistakesAreNamed) {
  const std::vector<std::pair<Words, std::string>> mistakes = {
      {{"--host-file", "f"}, "--host-file: there is no such flag; did you mean --hostfile?"},
      {{"--frobnicate=1"},
       "--frobnicate: there is no such flag; horovodrun --help lists all of them"},
      {{"-x"}, "-x: there is no such flag; did you mean -h?"},
      {{"--hierarchical-all"},
       "--hierarchical-all could be any of --hierarchical-allreduce, --hierarchical-allgather: "
       "write a longer part of the name"},
      {{"-np"}, "-np: \"python\": accepted is a whole number from 1 to 1048576"},
      {{"-np", "--verbose"},
       "-np needs a value: a whole number from 1 to 1048576; one that starts with a dash is "
       "written -np=value"},
      {{"-np", "0"}, "-np: \"0\": accepted is a whole number from 1 to 1048576"},
      {{"-np", "two"}, "-np: \"two\": accepted is a whole number from 1 to 1048576"},
      {{"--cache-capacity", "-1"}, "--cache-capacity: \"-1\": accepted is a whole number from 0"},
      {{"--cycle-time-ms=-0.5"}, "--cycle-time-ms: \"-0.5\": accepted is a number from 0"},
      {{"--autotune-gaussian-process-noise", "1.1"},
       "--autotune-gaussian-process-noise: \"1.1\": accepted is a number from 0 to 1"},
      {{"--log-level", "loud"},
       "--log-level: \"loud\": accepted is TRACE, DEBUG, INFO, WARNING, ERROR or FATAL"},
      {{"--thread-affinity", "0,-1"},
       "--thread-affinity: \"0,-1\": accepted is comma-separated numbers of cores, one per local "
       "rank"},
      {{"--network-interfaces", "eth0,"},
       "--network-interfaces: \"eth0,\": accepted is comma-separated names of interfaces"},
      {{"--blacklist-cooldown-range", "20", "10"},
       "--blacklist-cooldown-range: \"20 10\": accepted is the least and the most, whole numbers "
       "from 1 to 3600"},
      {{"--config-file="}, "--config-file: \"\": accepted is a path"},
      {{"--verbose=yes"}, "--verbose takes no value, and was given \"yes\""},
      {{"-H", "h:1", "--hostfile", "f"}, "-H and --hostfile exclude each other: give one of them"},
      {{"--gloo", "--jsrun"}, "--gloo and --jsrun exclude each other: give one of them"},
      {{"-prefix-timestamp", "--log-with-timestamp"},
       "-prefix-timestamp and --log-with-timestamp exclude each other: give one of them"},
      {{"--autotune", "--no-autotune"},
       "--autotune and --no-autotune exclude each other: give one of them"},
  };
  for (const auto& [words, message] : mistakes) EXPECT_EQ(complaint(words), message);
}

TEST(Flags, NoNameIsInTheTableTwice) {
  std::set<std::string_view> seen;
  for (const Flag& flag : flags()) {
    for (const std::string_view names :
         {flag.names, flag.extras.off, flag.extras.hidden_names, flag.extras.hidden_off_names}) {
      for (const std::string_view name : names_in(names)) {
        EXPECT_TRUE(seen.insert(name).second) << name;
      }
    }
    EXPECT_EQ(is_switch(flag), flag.value.name.empty()) << flag.names;
    EXPECT_FALSE(flag.help.empty()) << flag.names;
  }
}

}  // namespace
}  // namespace hvd::launcher
