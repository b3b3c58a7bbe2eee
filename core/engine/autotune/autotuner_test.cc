// SPDX-License-Identifier: Apache-2.0
#include "engine/autotune/autotuner.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "engine/autotune/autotune_log.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

AutotuneOptions nothing_to_tune() {
  AutotuneOptions options;
  options.fusion_threshold = false;
  options.cycle_time = false;
  options.hierarchical_allreduce = false;
  options.hierarchical_allgather = false;
  options.cache = false;
  return options;
}

// A job whose speed depends on its settings, in bytes per microsecond.
template <typename Speed>
class Job {
 public:
  Job(Autotuner& tuner, Speed speed) : tuner_(tuner), speed_(speed) {}

  // A step of training: two batches that hold three tensors.
  void step() {
    tried_.insert(tuner_.current().fusion_threshold);
    batch(std::array<uint64_t, 2>{11, 12});
    batch(std::array<uint64_t, 1>{13});
  }
  // Returns the steps that it took.
  int run_until_done(int most_steps) {
    int steps = 0;
    for (; !tuner_.done() && steps < most_steps; ++steps) step();
    return steps;
  }
  const std::set<int64_t>& tried_thresholds() const { return tried_; }

 private:
  void batch(std::span<const uint64_t> tensors) {
    constexpr int64_t kBytes = 10'000'000;
    now_us_ += std::llround(kBytes / speed_(tuner_.current()));
    const Tunables before = tuner_.current();
    const auto changed = tuner_.record(tensors, kBytes, now_us_);
    // It returns values if and only if they differ from the previous ones.
    EXPECT_EQ(changed.has_value(), tuner_.current() != before);
    EXPECT_EQ(changed.value_or(before), tuner_.current());
  }

  Autotuner& tuner_;
  Speed speed_;
  int64_t now_us_ = 1'000'000;
  std::set<int64_t> tried_;
};

// Falls off smoothly around (megabytes, milliseconds), where the speed is 1000.
struct Hill {
  double megabytes;
  double milliseconds;
  double operator()(const Tunables& tunables) const {
    const double x = std::sqrt(static_cast<double>(tunables.fusion_threshold) / (64 << 20));
    const double y = std::sqrt(tunables.cycle_time_ms / 100);
    const double dx = x - std::sqrt(megabytes / 64);
    const double dy = y - std::sqrt(milliseconds / 100);
    return 200 + 800 * std::exp(-(dx * dx + dy * dy) / 0.15);
  }
};

TEST(Autotuner, ComesWithinATenthOfTheBestSpeedDespiteNoise) {
  for (const Hill hill : {Hill{50, 0}, Hill{30, 2}, Hill{2, 60}, Hill{60, 90}, Hill{0, 0}}) {
    AutotuneOptions options = nothing_to_tune();
    options.fusion_threshold = true;
    options.cycle_time = true;
    Tunables initial;
    initial.fusion_threshold = 128 << 20;
    initial.cycle_time_ms = 1;
    Autotuner tuner(options, initial);
    std::mt19937 random(1);
    std::uniform_real_distribution<double> noise(0.95, 1.05);
    Job job(tuner, [&](const Tunables& tunables) { return hill(tunables) * noise(random); });
    // 3 samples to warm up, the initial values and 20 others, of 5 times 10 steps each.
    const int steps = job.run_until_done(5000);
    EXPECT_TRUE(tuner.done());
    EXPECT_LE(steps, 1 + (3 + 1 + 20) * 50);
    EXPECT_GE(hill(tuner.best()), 900)
        << hill.megabytes << " MB, " << hill.milliseconds
        << " ms: " << tuner.best().fusion_threshold << " " << tuner.best().cycle_time_ms;
    EXPECT_EQ(tuner.current(), tuner.best());
  }
}

TEST(Autotuner, FirstTriesTheInitialValuesAndThePointsThatUsersKnow) {
  AutotuneOptions options = nothing_to_tune();
  options.fusion_threshold = true;
  options.cycle_time = true;
  options.warmup_samples = 0;
  options.steps_per_sample = 1;
  options.most_samples = 4;
  Autotuner tuner(options, Tunables{});
  Job job(tuner, [](const Tunables&) { return 1000; });
  job.run_until_done(100);
  // All values are equally fast, so the initial ones win.
  EXPECT_THAT(tuner.take_rows(), ElementsAre("0,0,0,1,0,134217728,1000,auto,0",  //
                                             "0,0,0,1,5,4194304,1000,auto,0",    //
                                             "0,0,0,1,50,33554432,1000,auto,0",  //
                                             "0,0,0,1,25,16777216,1000,auto,0",  //
                                             "0,0,0,1,10,8388608,1000,auto,0",   //
                                             "0,0,0,1,0,134217728,1000,auto,0"));
  EXPECT_EQ(tuner.best(), Tunables{});
  EXPECT_THAT(tuner.take_rows(), IsEmpty());
}

TEST(Autotuner, LeavesAFixedSettingAlone) {
  AutotuneOptions options = nothing_to_tune();
  options.cycle_time = true;
  options.steps_per_sample = 1;
  Tunables initial;
  initial.fusion_threshold = 12345;
  initial.cycle_time_ms = 80;
  Autotuner tuner(options, initial);
  Job job(tuner, Hill{64, 0});
  job.run_until_done(1000);
  EXPECT_TRUE(tuner.done());
  EXPECT_THAT(job.tried_thresholds(), ElementsAre(12345));
  EXPECT_LT(tuner.best().cycle_time_ms, 10);

  EXPECT_TRUE(Autotuner(nothing_to_tune(), initial).done());
}

TEST(Autotuner, TriesOneSwitchAfterTheOtherAndKeepsWhatHelps) {
  using enum AllreduceAlgorithm;
  AutotuneOptions options = nothing_to_tune();
  options.warmup_samples = 0;
  options.steps_per_sample = 1;
  options.hierarchical_allreduce = true;
  options.hierarchical_allgather = true;
  options.cache = true;
  options.algorithms = {kRing, kHalvingDoubling};
  options.chunk_sizes = {65536};
  Autotuner tuner(options, Tunables{});
  Job job(tuner, [](const Tunables& tunables) {
    double speed = 1000;
    if (tunables.hierarchical_allreduce) speed -= 200;
    if (tunables.hierarchical_allgather) speed += 1000;
    if (tunables.algorithm == kRing) speed += 500;
    if (tunables.chunk_bytes == 65536) speed += 2500;
    if (!tunables.cache_enabled) speed /= 2;
    return speed;
  });
  job.run_until_done(100);
  Tunables expected;
  expected.hierarchical_allgather = true;
  expected.algorithm = kRing;
  expected.chunk_bytes = 65536;
  EXPECT_EQ(tuner.best(), expected);
  EXPECT_EQ(tuner.current(), expected);
  EXPECT_THAT(tuner.take_rows(), ElementsAre("0,0,0,1,0,134217728,1000,auto,0",              //
                                             "1,0,0,1,0,134217728,800,auto,0",               //
                                             "0,1,0,1,0,134217728,2000,auto,0",              //
                                             "0,1,0,1,0,134217728,2500,ring,0",              //
                                             "0,1,0,1,0,134217728,2000,halving_doubling,0",  //
                                             "0,1,0,1,0,134217728,5000,ring,65536",          //
                                             "0,1,0,0,0,134217728,2500,ring,65536",          //
                                             "0,1,0,1,0,134217728,5000,ring,65536"));
}

TEST(Autotuner, TriesNoOtherAlgorithmOnceTwoLevelsAreBetter) {
  AutotuneOptions options = nothing_to_tune();
  options.warmup_samples = 0;
  options.steps_per_sample = 1;
  options.hierarchical_allreduce = true;
  options.algorithms = {AllreduceAlgorithm::kRing};
  Autotuner tuner(options, Tunables{});
  Job job(tuner, [](const Tunables& tunables) { return tunables.hierarchical_allreduce ? 2 : 1; });
  job.run_until_done(100);
  EXPECT_TRUE(tuner.best().hierarchical_allreduce);
  EXPECT_EQ(tuner.take_rows().size(), 3u);
}

TEST(Autotuner, WarmUpsNeitherScoreNorChangeAnything) {
  AutotuneOptions options = nothing_to_tune();
  options.cache = true;
  options.warmup_samples = 2;
  options.steps_per_sample = 1;
  Autotuner tuner(options, Tunables{});
  int calls = 0;
  // Quick at first, with empty queues. Two batches are a step and five steps a sample; the very
  // first batch only starts the clock.
  Job job(tuner, [&](const Tunables&) { return ++calls <= 21 ? 5000 : 1000; });
  for (int i = 0; i < 10; ++i) job.step();
  EXPECT_THAT(tuner.take_rows(), IsEmpty());
  job.run_until_done(100);
  EXPECT_THAT(tuner.take_rows(), ElementsAre(HasSubstr(",1000,"), HasSubstr(",1000,"),
                                             StartsWith("0,0,0,1,0,134217728,1000,")));
}

TEST(Sampler, AScoreIsTheMedianOfFiveSubSamples) {
  Sampler sampler(/*steps=*/2);
  const std::array<uint64_t, 2> tensors = {1, 2};
  int64_t now = 50;
  EXPECT_EQ(sampler.record(tensors, 1'000'000, now), std::nullopt);  // starts the clock
  std::vector<double> scores;
  // Sub-samples of two steps of two batches and 200 bytes; the third one takes a pause.
  for (const int64_t step_us : {10, 1, 5'000, 4, 5, 20, 20, 20, 20, 20}) {
    for (int step = 0; step < 2; ++step) {
      const std::array<uint64_t, 1> other = {3};
      EXPECT_EQ(sampler.record(other, 50, now), std::nullopt);
      now += step_us;
      if (const auto score = sampler.record(tensors, 50, now)) scores.push_back(*score);
    }
  }
  EXPECT_THAT(scores, ElementsAre(20.0, 5.0));  // 100/10, /1, /5000, /4, /5 and five times 100/20
}

TEST(Sampler, ClocksThatStandStillOrGoBackGiveNoScoreButDoNotStopIt) {
  Sampler sampler(1);
  const std::array<uint64_t, 1> tensor = {1};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sampler.record(tensor, 10, 7), std::nullopt);
  EXPECT_EQ(sampler.record(tensor, 10, -1000), std::nullopt);
  std::optional<double> score;
  for (int64_t now = -990; !score && now < 0; now += 10) score = sampler.record(tensor, 10, now);
  EXPECT_EQ(score, 1.0);
}

TEST(Sampler, TensorsThatNeverComeBackEndNoSample) {
  Sampler sampler(2);
  for (uint64_t i = 0; i < 200'000; ++i) {
    const std::array<uint64_t, 1> tensor = {i};
    ASSERT_EQ(sampler.record(tensor, 10, static_cast<int64_t>(i)), std::nullopt);
  }
}

TEST(AutotuneOptions, LeaveAloneWhatTheUserHasSetAndWhatMakesNoDifference) {
  using enum AllreduceAlgorithm;
  const Topology one_host = Topology::one_host(2);
  const Topology two_hosts({0, 0, 1, 1});
  const Config config;

  const auto alone = autotune_options(config, one_host, true);
  EXPECT_TRUE(alone.fusion_threshold && alone.cycle_time && alone.cache);
  EXPECT_FALSE(alone.hierarchical_allreduce || alone.hierarchical_allgather);
  EXPECT_THAT(alone.algorithms, IsEmpty());
  EXPECT_FALSE(alone.chunk_sizes.empty());

  const auto several = autotune_options(config, two_hosts, true);
  EXPECT_TRUE(several.hierarchical_allreduce && several.hierarchical_allgather);
  EXPECT_THAT(several.algorithms,
              ::testing::UnorderedElementsAre(kRecursiveDoubling, kRing, kHalvingDoubling));

  Config given;
  given.given = {"HOROVOD_FUSION_THRESHOLD", "HOROVOD_CACHE_CAPACITY",
                 "HOROVOD_ALLREDUCE_ALGORITHM"};
  given.autotune_steps_per_sample = 77;
  const auto fixed = autotune_options(given, two_hosts, true);
  EXPECT_FALSE(fixed.fusion_threshold || fixed.cache || fixed.hierarchical_allreduce);
  EXPECT_TRUE(fixed.cycle_time && fixed.hierarchical_allgather);
  EXPECT_THAT(fixed.algorithms, IsEmpty());
  EXPECT_EQ(fixed.steps_per_sample, 77);

  Config deterministic;
  deterministic.deterministic = true;
  const auto same_bits = autotune_options(deterministic, two_hosts, true);
  EXPECT_FALSE(same_bits.hierarchical_allreduce);
  EXPECT_THAT(same_bits.algorithms, IsEmpty());
}

TEST(Tunables, ReadersGetWhatWasWrittenAndRefuseGarbage) {
  Tunables written;
  written.fusion_threshold = 5 << 20;
  written.cycle_time_ms = 2.5;
  written.algorithm = AllreduceAlgorithm::kTwoLevel;
  written.chunk_bytes = 65536;
  written.hierarchical_allgather = true;
  written.cache_enabled = false;
  const ByteBuffer bytes = encode(written);
  const auto read = decode_tunables(bytes);
  ASSERT_OK(read);
  EXPECT_EQ(*read, written);

  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_CODE(StatusCode::kInvalidArgument, decode_tunables(ConstBytes(bytes).first(size)));
  }
  ByteBuffer longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_CODE(StatusCode::kInvalidArgument, decode_tunables(longer));
  const auto refuses = [](auto spoil) {
    Tunables spoilt;
    spoil(spoilt);
    return !decode_tunables(encode(spoilt)).is_ok();
  };
  EXPECT_TRUE(refuses([](Tunables& t) { t.fusion_threshold = -1; }));
  EXPECT_TRUE(refuses([](Tunables& t) { t.cycle_time_ms = std::nan(""); }));
  EXPECT_TRUE(refuses([](Tunables& t) { t.cycle_time_ms = -0.5; }));
  EXPECT_TRUE(refuses([](Tunables& t) { t.cycle_time_ms = HUGE_VAL; }));
  EXPECT_TRUE(refuses([](Tunables& t) { t.algorithm = static_cast<AllreduceAlgorithm>(6); }));
  EXPECT_TRUE(refuses([](Tunables& t) { t.chunk_bytes = SIZE_MAX; }));
}

TEST(Tunables, ComeFromTheSettings) {
  Config config;
  config.cycle_time = Config::Milliseconds(3.5);
  config.cache_capacity = 0;
  config.allreduce_algorithm = "ring";
  const auto tunables = tunables_from(config);
  ASSERT_OK(tunables);
  EXPECT_EQ(tunables->fusion_threshold, 128 << 20);
  EXPECT_EQ(tunables->cycle_time_ms, 3.5);
  EXPECT_EQ(tunables->algorithm, AllreduceAlgorithm::kRing);
  EXPECT_FALSE(tunables->cache_enabled);
  config.allreduce_algorithm = "rings";
  EXPECT_CODE(StatusCode::kInvalidArgument, tunables_from(config));
}

TEST(AutotuneLog, BeginsTheFileAnewAndAppendsRows) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("hvd_autotune_" + std::to_string(::getpid()) + ".csv");
  std::ofstream(path) << "old content that is longer than the header, " << std::string(200, 'x');
  auto log = AutotuneLog::create(path);
  ASSERT_OK(log);
  const std::array<std::string, 2> rows = {"1,2", "3,4"};
  ASSERT_OK(log->append(rows));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  EXPECT_EQ(text.str(),
            "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,"
            "cycle_time_ms,tensor_fusion_threshold,score,algorithm,chunk_bytes\n1,2\n3,4\n");
  EXPECT_THAT(AutotuneLog::create("/nowhere/at/all.csv").status().message(),
              HasSubstr("/nowhere/at/all.csv"));
}

}  // namespace
}  // namespace hvd
