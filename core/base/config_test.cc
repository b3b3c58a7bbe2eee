// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "testing/assertions.h"

namespace hvd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Environment = std::map<std::string, std::string>;

Result<Config> read(const Environment& environment) {
  return Config::from([&](const char* variable) -> const char* {
    const auto found = environment.find(variable);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::string complaint(const Environment& environment) {
  const auto config = read(environment);
  EXPECT_CODE(StatusCode::kInvalidArgument, config);
  return config.status().message();
}

constexpr char kSecret[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

TEST(Config, WithoutVariablesEveryFieldHasItsDefault) {
  const auto config = read({});
  ASSERT_OK(config);
  EXPECT_EQ(*config, Config());
  EXPECT_EQ(config->cycle_time.count(), 0) << "event-driven";
}

TEST(Config, DefaultsInTheTableAreThoseOfTheFields) {
  Config config;
  for (const Setting& setting : settings()) {
    if (setting.default_text.empty()) continue;
    EXPECT_TRUE(setting.read(setting.default_text, config)) << setting.variable;
    EXPECT_EQ(config, Config()) << setting.variable;
  }
}

TEST(Config, EveryVariableIsInTheTablesOnceAndIsDescribed) {
  std::set<std::string_view> seen;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(seen.insert(setting.variable).second) << setting.variable;
    EXPECT_FALSE(setting.accepted.empty()) << setting.variable;
    EXPECT_FALSE(setting.documentation.empty()) << setting.variable;
  }
  for (const IgnoredSetting& setting : ignored_settings()) {
    EXPECT_TRUE(seen.insert(setting.variable).second) << setting.variable;
    EXPECT_FALSE(setting.accepted.empty()) << setting.variable;
    EXPECT_FALSE(setting.meaning.empty()) << setting.variable;
    EXPECT_FALSE(setting.reason.empty()) << setting.variable;
  }
}

// Each variable changes its own field and no other: detects a copied row in the table.
TEST(Config, EveryVariableReachesAFieldOfItsOwn) {
  const Environment special = {{"HOROVOD_ALLREDUCE_ALGORITHM", "ring"},
                               {"HOROVOD_LOG_LEVEL", "Trace"},
                               {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.5"},
                               {"HOROVOD_RENDEZVOUS", "[::1]:80"},
                               {"HOROVOD_WIRE_PROTECTION", "None"},
                               {"_HOROVOD_SECRET_KEY", kSecret}};
  std::vector<Config> seen = {Config()};
  for (const Setting& setting : settings()) {
    if (setting.variable == std::string_view("HOROVOD_GLOO_IFACE")) continue;  // an older name
    const auto found = special.find(setting.variable);
    const bool is_switch = setting.accepted.find("on, off") != std::string_view::npos;
    Config config;
    ASSERT_TRUE(setting.read(found != special.end() ? found->second
                             : is_switch            ? "on"
                                                    : "7",
                             config))
        << setting.variable;
    for (const Config& other : seen) EXPECT_NE(config, other) << setting.variable;
    seen.push_back(config);
  }
}

TEST(Config, AnIgnoredVariableIsCheckedAndChangesNoField) {
  for (const IgnoredSetting& setting : ignored_settings()) {
    const bool is_backend = setting.default_text.empty();
    const auto config = read({{setting.variable, is_backend ? "Gloo" : "1"}});
    ASSERT_OK(config);
    EXPECT_THAT(config->given, ElementsAre(setting.variable));
    Config expected;
    expected.given = config->given;
    EXPECT_EQ(*config, expected) << setting.variable;
    EXPECT_THAT(complaint({{setting.variable, "no such value"}}),
                AllOf(HasSubstr(setting.variable), HasSubstr(std::string(setting.accepted))));
  }
}

TEST(Config, SwitchesTakeNumbersAndWords) {
  for (const char* on : {"1", "2", "+1", "true", "YES", " On "}) {
    EXPECT_TRUE(read({{"HOROVOD_TLS", on}})->tls) << on;
  }
  for (const char* off : {"0", "-1", "False", "no", "OFF", "", " "}) {
    EXPECT_FALSE(read({{"HOROVOD_TLS", off}})->tls) << off;
  }
  EXPECT_CODE(StatusCode::kInvalidArgument, read({{"HOROVOD_TLS", "enable"}}));
}

TEST(Config, MalformedValuesAreAllReportedWithWhatIsAccepted) {
  EXPECT_EQ(complaint({{"HOROVOD_FUSION_THRESHOLD", "64MB"}, {"HOROVOD_CYCLE_TIME", "-1"}}),
            "HOROVOD_FUSION_THRESHOLD=\"64MB\": accepted is bytes, from 0; "
            "HOROVOD_CYCLE_TIME=\"-1\": accepted is milliseconds, from 0, fractions allowed");
}

TEST(Config, ValuesOutOfRangeOrWithLeftoversAreMalformed) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"HOROVOD_RANK", "-1"},
      {"HOROVOD_RANK", "0x10"},
      {"HOROVOD_SIZE", "0"},
      {"HOROVOD_SIZE", "99999999999999999999"},
      {"HOROVOD_CACHE_CAPACITY", "1.5"},
      {"HOROVOD_CYCLE_TIME", "nan"},
      {"HOROVOD_CYCLE_TIME", "inf"},
      {"HOROVOD_GLOO_TIMEOUT_SECONDS", "0"},
      {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "1.1"},
      {"HOROVOD_CPU_OPERATIONS", "nccl"},
      {"HOROVOD_CONTROLLER", "ccl"},
      {"HOROVOD_THREAD_AFFINITY", "0,,1"},
      {"HOROVOD_THREAD_AFFINITY", "0,-1"},
      {"HOROVOD_NETWORK_INTERFACES", "eth0,"},
      {"HOROVOD_RENDEZVOUS", "node1"},
      {"HOROVOD_RENDEZVOUS", ":80"},
      {"HOROVOD_RENDEZVOUS", "node1:80,node2"},
      {"HOROVOD_RENDEZVOUS", "::1:80"},
      {"HOROVOD_RENDEZVOUS", "node1:65536"},
      {"HOROVOD_WIRE_PROTECTION", "tls"},
      {"_HOROVOD_SECRET_KEY", "AAEC"},
  };
  for (const auto& [variable, value] : bad) {
    EXPECT_THAT(complaint({{variable, value}}), AllOf(HasSubstr(variable), HasSubstr("accepted")))
        << value;
  }
}

TEST(Config, TheSecretIsReadButNeverShown) {
  EXPECT_EQ(read({{"_HOROVOD_SECRET_KEY", kSecret}})->secret_key.text(), kSecret);
  EXPECT_THAT(complaint({{"_HOROVOD_SECRET_KEY", "hush-hush"}}),
              AllOf(HasSubstr("_HOROVOD_SECRET_KEY"), Not(HasSubstr("hush"))));
}

TEST(Config, RanksHaveToBeBelowSizes) {
  EXPECT_THAT(complaint({{"HOROVOD_RANK", "4"},
                         {"HOROVOD_SIZE", "4"},
                         {"HOROVOD_LOCAL_RANK", "1"},
                         {"HOROVOD_CROSS_RANK", "1"},
                         {"HOROVOD_CROSS_SIZE", "2"}}),
              AllOf(HasSubstr("HOROVOD_RANK=4 has to be below HOROVOD_SIZE=4"),
                    HasSubstr("HOROVOD_LOCAL_RANK=1"), Not(HasSubstr("CROSS"))));
}

TEST(Config, RendezvousComesFromEitherSpelling) {
  const Environment older = {{"HOROVOD_GLOO_RENDEZVOUS_ADDR", "::1"},
                             {"HOROVOD_GLOO_RENDEZVOUS_PORT", "80"}};
  EXPECT_EQ(read(older)->rendezvous, "[::1]:80");
  Environment both = older;
  both["HOROVOD_RENDEZVOUS"] = "node1:99";
  EXPECT_EQ(read(both)->rendezvous, "node1:99");
  EXPECT_THAT(complaint({{"HOROVOD_GLOO_RENDEZVOUS_ADDR", "node1"}}), HasSubstr("set together"));
}

TEST(Config, NetworkInterfacesWinOverTheirOlderName) {
  EXPECT_THAT(read({{"HOROVOD_GLOO_IFACE", "eth0"}})->network_interfaces, ElementsAre("eth0"));
  EXPECT_THAT(read({{"HOROVOD_NETWORK_INTERFACES", "ib0, eth1"}, {"HOROVOD_GLOO_IFACE", "eth0"}})
                  ->network_interfaces,
              ElementsAre("ib0", "eth1"));
}

TEST(Config, AnUnknownLogLevelIsAWarningAndMeansWarning) {
  const auto config = read({{"HOROVOD_LOG_LEVEL", "loud"}});
  ASSERT_OK(config);
  EXPECT_EQ(config->log_level, LogLevel::kWarning);
  EXPECT_THAT(config->warnings, ElementsAre(HasSubstr("\"loud\" is not a level")));
}

TEST(Config, AShutdownTimeBelowTheWarningTimeLowersThatOne) {
  Environment environment = {{"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "20"}};
  const auto config = read(environment);
  ASSERT_OK(config);
  EXPECT_EQ(config->stall_shutdown_time.count(), 20);
  EXPECT_EQ(config->stall_check_time.count(), 10);
  EXPECT_THAT(config->warnings, IsEmpty());

  environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "30";
  const auto contradiction = read(environment);
  ASSERT_OK(contradiction);
  EXPECT_EQ(contradiction->stall_check_time.count(), 10);
  EXPECT_THAT(contradiction->warnings,
              ElementsAre(HasSubstr("HOROVOD_STALL_CHECK_TIME_SECONDS=30 is above "
                                    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=20")));

  environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "20";
  EXPECT_EQ(read(environment)->stall_check_time.count(), 20);
}

TEST(Config, AnUnknownAlgorithmIsRefusedWithItsVariable) {
  EXPECT_EQ(read({{"HOROVOD_ALLREDUCE_ALGORITHM", "ring"}})->allreduce_algorithm, "ring");
  EXPECT_THAT(complaint({{"HOROVOD_ALLREDUCE_ALGORITHM", "maybe"}}),
              HasSubstr("HOROVOD_ALLREDUCE_ALGORITHM=\"maybe\": accepted is auto, shared_memory"));
}

TEST(Config, ALogOfAutotuneWithoutAutotuneIsAWarning) {
  EXPECT_THAT(read({{"HOROVOD_AUTOTUNE_LOG", "/no/such/file"}})->warnings,
              ElementsAre(HasSubstr("HOROVOD_AUTOTUNE_LOG has no effect")));
  EXPECT_THAT(
      read({{"HOROVOD_AUTOTUNE_LOG", "/no/such/file"}, {"HOROVOD_AUTOTUNE", "1"}})->warnings,
      IsEmpty());
}

TEST(Config, ATimelineThatCannotBeWrittenIsNamedWithItsVariable) {
  EXPECT_OK(Config().check_timeline());
  Config config;
  config.timeline = "DYNAMIC";
  EXPECT_OK(config.check_timeline("/no/such/directory"));
  config.timeline = "t.json";
  EXPECT_OK(config.check_timeline(::testing::TempDir()));
  for (const auto& [directory, timeline] : std::vector<std::pair<std::string, std::string>>{
           {"/no/such/directory", "t.json"}, {"", "/no/such/directory/t.json"}}) {
    config.timeline = timeline;
    const Status refused = config.check_timeline(directory);
    EXPECT_CODE(StatusCode::kIo, refused);
    EXPECT_EQ(refused.message(), "HOROVOD_TIMELINE=\"" + timeline +
                                     "\" cannot be written: /no/such/directory: No such file or "
                                     "directory");
  }
  config.timeline = "/dev/null";  // exists, in a folder that not every user may write to
  EXPECT_OK(config.check_timeline());
}

TEST(Config, APlaceFromAnotherLauncherCountsUnlessThereIsOneOfOurs) {
  Environment mpi = {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
  EXPECT_EQ(read(mpi)->rank, 2);
  EXPECT_EQ(read(mpi)->size, 4);
  EXPECT_TRUE(read(mpi)->started_by_mpi);
  mpi["HOROVOD_RANK"] = "2";
  mpi["HOROVOD_SIZE"] = "4";
  EXPECT_TRUE(read(mpi)->started_by_mpi) << "as ranks of horovod.spark.run(use_mpi=True)";
  mpi["HOROVOD_RANK"] = "1";
  EXPECT_FALSE(read(mpi)->started_by_mpi);
  mpi["HOROVOD_SIZE"] = "3";
  EXPECT_EQ(read(mpi)->rank, 1);
  EXPECT_EQ(read(mpi)->size, 3);
  EXPECT_EQ(read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})->size, 2);
  EXPECT_TRUE(read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})->started_by_mpi);
  EXPECT_EQ(read({{"PMI_SIZE", "2"}})->size, 1) << "half a place is none";
  EXPECT_THAT(complaint({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}), HasSubstr("PMI_RANK=\"2\""));
}

TEST(Config, APlaceFromSlurmCountsOnlyWithARendezvous) {
  Environment slurm = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}};
  EXPECT_EQ(read(slurm)->size, 1);
  slurm["HOROVOD_RENDEZVOUS"] = "node1:99";
  EXPECT_EQ(read(slurm)->rank, 1);
  EXPECT_EQ(read(slurm)->size, 2);
}

TEST(Config, KnowsWhichVariablesWereGiven) {
  const auto config = read({{"HOROVOD_CYCLE_TIME", "3.5"}, {"HOROVOD_AUTOTUNE", ""}});
  ASSERT_OK(config);
  EXPECT_EQ(config->cycle_time.count(), 3.5);
  EXPECT_TRUE(config->was_given("HOROVOD_CYCLE_TIME"));
  EXPECT_FALSE(config->was_given("HOROVOD_AUTOTUNE"));
}

TEST(Config, TheEnvironmentOfTheProcessIsRead) {
  setenv("HOROVOD_HOSTNAME", "here", 1);
  EXPECT_EQ(Config::from_environment()->hostname, "here");
  unsetenv("HOROVOD_HOSTNAME");
  EXPECT_EQ(Config::from_environment()->hostname, "localhost");
}

TEST(Config, TheSecretIsTakenOutOfTheEnvironmentAndGivenBackToTheConfig) {
  EXPECT_TRUE(take_secret_from_environment().empty());
  setenv("_HOROVOD_SECRET_KEY", kSecret, 1);
  const SecretText taken = take_secret_from_environment();
  EXPECT_EQ(taken.text(), kSecret);
  EXPECT_EQ(std::getenv("_HOROVOD_SECRET_KEY"), nullptr);
  EXPECT_TRUE(Config::from_environment()->secret_key.empty());
  EXPECT_EQ(Config::from_environment(taken)->secret_key, taken);
}

TEST(Config, AValueIsShownInTheFormThatIsReadAgain) {
  for (const Setting& setting : settings()) {
    if (setting.default_text.empty()) continue;
    const auto shown = setting_value(setting.variable, "");
    ASSERT_OK(shown);
    EXPECT_EQ(*shown, setting.default_text) << setting.variable;
  }
  for (const IgnoredSetting& setting : ignored_settings()) {
    const auto shown = setting_value(setting.variable, "");
    ASSERT_OK(shown);
    EXPECT_EQ(*shown, setting.default_text) << setting.variable;
  }
  const Environment spelled = {
      {"HOROVOD_TLS", "Yes"},         {"HOROVOD_FUSION_THRESHOLD", " +64 "},
      {"HOROVOD_CYCLE_TIME", "1.50"}, {"HOROVOD_THREAD_AFFINITY", "1, 3"},
      {"HOROVOD_CONTROLLER", "GLOO"}, {"HOROVOD_NETWORK_INTERFACES", "eth0 ,lo"},
      {"HOROVOD_LOG_LEVEL", "TRACE"}, {"HOROVOD_RENDEZVOUS", "a:1, b:2"},
      {"HOROVOD_CCL_CACHE", "Yes"},   {"HOROVOD_NUM_NCCL_STREAMS", " +4 "},
  };
  const Environment shown = {
      {"HOROVOD_TLS", "1"},           {"HOROVOD_FUSION_THRESHOLD", "64"},
      {"HOROVOD_CYCLE_TIME", "1.5"},  {"HOROVOD_THREAD_AFFINITY", "1,3"},
      {"HOROVOD_CONTROLLER", "gloo"}, {"HOROVOD_NETWORK_INTERFACES", "eth0,lo"},
      {"HOROVOD_LOG_LEVEL", "trace"}, {"HOROVOD_RENDEZVOUS", "a:1,b:2"},
      {"HOROVOD_CCL_CACHE", "1"},     {"HOROVOD_NUM_NCCL_STREAMS", "4"},
  };
  for (const auto& [variable, text] : spelled) {
    const auto value = setting_value(variable, text);
    ASSERT_OK(value);
    EXPECT_EQ(*value, shown.at(variable));
  }
}

TEST(Config, AValueThatIsUnknownMalformedOrSecretIsRefused) {
  EXPECT_CODE(StatusCode::kNotFound, setting_value("HOROVOD_NOTHING"));
  EXPECT_CODE(StatusCode::kInvalidArgument, setting_value("_HOROVOD_SECRET_KEY", kSecret));
  const auto refused = setting_value("HOROVOD_TLS", "maybe");
  EXPECT_CODE(StatusCode::kInvalidArgument, refused);
  EXPECT_THAT(refused.status().message(), AllOf(HasSubstr("HOROVOD_TLS"), HasSubstr("maybe")));
}

TEST(Config, AValueOfTheEnvironmentMayHaveItsOlderName) {
  setenv("HOROVOD_GLOO_IFACE", "eth7", 1);
  const auto value = setting_value("HOROVOD_NETWORK_INTERFACES");
  unsetenv("HOROVOD_GLOO_IFACE");
  ASSERT_OK(value);
  EXPECT_EQ(*value, "eth7");
}

TEST(Config, AnIgnoredValueOfTheEnvironmentIsShown) {
  setenv("HOROVOD_CONTROLLER", " MPI ", 1);
  const auto value = setting_value("HOROVOD_CONTROLLER");
  setenv("HOROVOD_CONTROLLER", "ccl", 1);
  const auto refused = setting_value("HOROVOD_CONTROLLER");
  unsetenv("HOROVOD_CONTROLLER");
  ASSERT_OK(value);
  EXPECT_EQ(*value, "mpi");
  EXPECT_CODE(StatusCode::kInvalidArgument, refused);
}

TEST(Config, TheDocumentedSettingsAreCurrent) {
  std::ifstream file(HVD_SOURCE_DIR "/docs/settings.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), settings_page()) << "run `make docs`";
}

}  // namespace
}  // namespace hvd
