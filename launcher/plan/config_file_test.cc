// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/config_file.h"

#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Outcome {
  Options options;
  std::vector<std::string> warnings;
  Status status;
};

Outcome apply(std::string_view text, Options options = {}) {
  Outcome outcome{.options = std::move(options)};
  outcome.status = apply_config_file(text, "c.yaml", outcome.options, outcome.warnings);
  return outcome;
}

TEST(ConfigFile, EveryKeyOfTheTableSetsItsFlag) {
  for (const Flag& flag : flags()) {
    const std::string_view key = flag.extras.config_key;
    if (key.empty()) continue;
    const size_t dot = key.find('.');
    const std::string value = is_switch(flag)                               ? "yes"
                              : flag.extras.variable == "HOROVOD_LOG_LEVEL" ? "DEBUG"
                                                                            : "1";
    const std::string text = std::string(key.substr(0, dot)) + ":\n  " +
                             std::string(key.substr(dot + 1)) + ": " + value + "\n";
    const Outcome outcome = apply(text);
    EXPECT_OK(outcome.status);
    EXPECT_THAT(outcome.warnings, IsEmpty());
    for (const Flag& other : flags()) {
      EXPECT_EQ(is_set(other, outcome.options), &other == &flag) << key << " and " << other.names;
    }
  }
}

TEST(ConfigFile, TrueInTheFileIsFalseForInvertedFlags) {
  const Options on = apply("stall_check: {enabled: true}\nlogging: {with_timestamp: on}").options;
  EXPECT_EQ(on.no_stall_check, false);
  EXPECT_EQ(on.log_without_timestamp, false);
  EXPECT_EQ(apply("stall_check: {enabled: false}").options.no_stall_check, true);
}

TEST(ConfigFile, TheCommandLineWins) {
  Options given;
  given.cycle_time_ms = 2;
  given.use_mpi = true;
  const Outcome outcome =
      apply("controller: gloo\nparams:\n  cycle_time_ms: 5\n  cache_capacity: 7\n", given);
  EXPECT_EQ(outcome.options.cycle_time_ms, 2);
  EXPECT_EQ(outcome.options.cache_capacity, 7);
  EXPECT_EQ(outcome.options.use_gloo, std::nullopt);
}

TEST(ConfigFile, NamesTheController) {
  EXPECT_EQ(apply("controller: mpi").options.use_mpi, true);
  EXPECT_EQ(apply("controller: Gloo").options.use_gloo, true);
}

TEST(ConfigFile, EmptyKeysAreIgnored) {
  for (const char* text :
       {"", "# nothing\n", "params:\n", "autotune:\n  log_file:\n", "controller:\n"}) {
    const Outcome outcome = apply(text);
    EXPECT_OK(outcome.status);
    for (const Flag& flag : flags()) EXPECT_FALSE(is_set(flag, outcome.options)) << text;
  }
}

TEST(ConfigFile, UnknownKeysAreIgnoredWithAWarningThatNamesThem) {
  const Outcome outcome = apply("params:\n  cycle_time: 5\nmodel:\n  layers: 3\n");
  EXPECT_OK(outcome.status);
  EXPECT_THAT(outcome.warnings,
              ElementsAre("c.yaml:2: params.cycle_time: there is no such key; it is ignored",
                          "c.yaml:3: model: there is no such key; it is ignored"));
}

TEST(ConfigFile, WrongValuesAreNamedWithFileAndLine) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"params:\n  cycle_time_ms: soon\n",
       "c.yaml:2: params.cycle_time_ms: \"soon\": accepted is a number from 0"},
      {"params:\n  cache_capacity: [1]\n",
       "c.yaml:2: params.cache_capacity: accepted is a whole number from 0"},
      {"autotune:\n\n  enabled: maybe\n",
       "c.yaml:3: autotune.enabled: \"maybe\": accepted is true, false, yes, no, on or off"},
      {"params: 5\n", "c.yaml:1: params: \"5\": accepted is a section with keys"},
      {"- 5\n", "c.yaml:1: the file: accepted is sections with keys"},
      {"controller: jsrun\n", "c.yaml:1: controller: \"jsrun\": accepted is gloo or mpi"},
  };
  for (const auto& [text, message] : mistakes) {
    const Outcome outcome = apply(text);
    EXPECT_CODE(StatusCode::kInvalidArgument, outcome.status);
    EXPECT_EQ(outcome.status.message(), message);
  }
  EXPECT_THAT(apply("params: {\n").status.message(), HasSubstr("not YAML"));
}

TEST(ConfigFile, AMistakeIsOneEvenWhereTheCommandLineWins) {
  Options given;
  given.cycle_time_ms = 2;
  EXPECT_CODE(StatusCode::kInvalidArgument, apply("params: {cycle_time_ms: x}", given).status);
}

}  // namespace
}  // namespace hvd::launcher
