// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/timeline.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "testing/assertions.h"

namespace hvd {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder for the files of one test. In memory if possible: there the kernel cuts writes most.
class Folder {
 public:
  Folder() {
    const bool shared = std::filesystem::is_directory("/dev/shm");
    std::string made = (shared ? "/dev/shm/" : ::testing::TempDir()) + "timelineXXXXXX";
    HVD_CHECK(::mkdtemp(made.data()) != nullptr);
    path_ = made;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// "B ALLREDUCE", "X 1", "E": what happened to the tensor called `name`.
std::vector<std::string> events_of(const Json& trace, const std::string& name) {
  int pid = -1;
  std::vector<std::string> found;
  for (const Json& event : trace) {
    if (event.value("name", "") == "process_name" && event["args"]["name"] == name) {
      pid = event["pid"];
    }
    if (event["ph"] == "M" || event["pid"] != pid) continue;
    std::string text = event["ph"];
    if (event.contains("name")) text += " " + event["name"].get<std::string>();
    found.push_back(text);
  }
  return found;
}

// Every end has its begin, times do not decrease, and each tensor is named before its first event.
void expect_nested(const Json& trace) {
  std::map<int, int> open;
  std::map<int, double> last;
  for (const Json& event : trace) {
    const int pid = event["pid"];
    if (event["ph"] == "M") {
      open.emplace(pid, 0);
      continue;
    }
    ASSERT_TRUE(open.contains(pid)) << event;
    ASSERT_GE(event["ts"].get<double>(), last[pid]) << event;
    last[pid] = event["ts"];
    if (event["ph"] == "B") ++open[pid];
    if (event["ph"] == "E") --open[pid];
    ASSERT_GE(open[pid], 0) << event;
    ASSERT_LE(open[pid], 2) << event;
  }
}

uint64_t dropped_in(const Json& trace) {
  uint64_t count = 0;
  for (const Json& event : trace) {
    if (event.value("name", "") == "DROPPED_EVENTS")
      count += event["args"]["count"].get<uint64_t>();
  }
  return count;
}

// All that happens to the tensors of one batch: 12 events for each, with 2 ranks.
constexpr uint64_t kEventsPerTensor = 12;
void record_step(Timeline& timeline, const std::vector<TensorId>& tensors) {
  static constexpr int64_t kShape[] = {64, 3};
  timeline.negotiation_start(tensors, TraceOp::kAllreduce);
  timeline.rank_ready(tensors, 0);
  timeline.rank_ready(tensors, 1);
  timeline.negotiation_end(tensors);
  timeline.operation_start(tensors, TraceOp::kAllreduce);
  timeline.activity_start(tensors, Activity::kMemcpyInFusionBuffer);
  timeline.activity_start(tensors, Activity::kGlooAllreduce);
  timeline.activity_start(tensors, Activity::kMemcpyOutFusionBuffer);
  timeline.activity_end(tensors);
  for (const TensorId tensor : tensors) timeline.shape(tensor, DType::kFloat32, kShape);
  timeline.operation_end(tensors);
}

TEST(Timeline, TellsTheStoryOfATensorAsScriptsExpectIt) {
  Folder folder;
  Timeline timeline(3);
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  ASSERT_OK(timeline.start(folder / "t.json", true));
  record_step(timeline, {timeline.tensor("conv1")});
  timeline.mark_cycle();
  const TensorId failed = timeline.tensor("conv2");
  timeline.operation_start(failed, TraceOp::kError);
  timeline.operation_failed(failed);
  ASSERT_OK(timeline.stop());
  EXPECT_FALSE(timeline.enabled());

  const std::string text = read_all(folder / "t.json");
  const Json trace = Json::parse(text);
  const auto start = trace[0]["args"]["start_time_since_epoch_in_micros"].get<int64_t>();
  const std::chrono::duration<double, std::micro> expected = before;
  EXPECT_NEAR(static_cast<double>(start), expected.count(), 60e6);
  EXPECT_EQ(trace[0]["name"], "process_name");
  EXPECT_EQ(trace[0]["pid"], 0);
  EXPECT_EQ(trace[1]["name"], "process_sort_index");
  EXPECT_THAT(events_of(trace, "conv1"),
              ElementsAre("B NEGOTIATE_ALLREDUCE", "X 0", "X 1", "E", "B ALLREDUCE",
                          "B MEMCPY_IN_FUSION_BUFFER", "E", "B GLOO_ALLREDUCE", "E",
                          "B MEMCPY_OUT_FUSION_BUFFER", "E", "E"));
  EXPECT_THAT(events_of(trace, "conv2"), ElementsAre("B ERROR", "E"));
  expect_nested(trace);
  EXPECT_THAT(text,
              HasSubstr(R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"conv1"}})"));
  EXPECT_THAT(text, HasSubstr(R"("pid":1,"args":{"dtype":"float32","shape":"[64, 3]"}})"));
  EXPECT_THAT(text, HasSubstr(R"({"ph":"i","name":"CYCLE_START","ts":)"));
  EXPECT_THAT(text, HasSubstr(R"("pid":0,"s":"g"})"));
  EXPECT_THAT(text, HasSubstr(R"("pid":1,"dur":0})"));
}

TEST(Timeline, NamesOfAnyBytesGiveJson) {
  Folder folder;
  Timeline timeline(0);
  ASSERT_OK(timeline.start(folder / "t.json", false));
  std::string every;
  for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
  for (const std::string& name :
       {std::string("a\"b\\c\n"), every, std::string("\xed\xa0\x80\xc0\xaf\xf5\xe2\x82"),
        std::string(100'000, '\1'), std::string("größe €")}) {
    timeline.operation_start(timeline.tensor(name), TraceOp::kBroadcast);
  }
  ASSERT_OK(timeline.stop());
  const Json trace = Json::parse(read_all(folder / "t.json"));
  EXPECT_EQ(events_of(trace, "a\"b\\c\n").size(), 1u);
  EXPECT_EQ(events_of(trace, "größe €").size(), 1u);
  EXPECT_EQ(json_text("\xed\xa0\x80"), "\\ufffd\\ufffd\\ufffd");
}

TEST(Timeline, AnotherPathEndsTheFileAndTheSameChangesNothing) {
  Folder folder;
  Timeline timeline(0);
  EXPECT_OK(timeline.stop());
  const std::vector<TensorId> tensors = {timeline.tensor("never used"), timeline.tensor("t")};
  record_step(timeline, tensors);  // no file is open
  ASSERT_OK(timeline.start(folder / "a.json", false));
  timeline.mark_cycle();  // not asked for
  timeline.operation_start(tensors[1], TraceOp::kAllgather);
  ASSERT_OK(timeline.start(folder / "a.json", false));
  ASSERT_OK(timeline.start(folder / "./a.json", false));
  timeline.activity_start(tensors[1], Activity::kGlooAllgather);
  EXPECT_CODE(StatusCode::kIo, timeline.start(folder / "none/b.json", false));
  EXPECT_CODE(StatusCode::kInvalidArgument, timeline.start("", false));
  timeline.activity_end(tensors[1]);
  ASSERT_OK(timeline.start(folder / "b.json", false));
  // The beginning of this one is in the other file.
  timeline.operation_failed(tensors[1]);
  record_step(timeline, {tensors[1]});
  const Json first = Json::parse(read_all(folder / "a.json"));
  EXPECT_THAT(events_of(first, "t"), ElementsAre("B ALLGATHER", "B GLOO_ALLGATHER", "E"));
  EXPECT_EQ(first.size(), 7u);
  ASSERT_OK(timeline.stop());
  const Json second = Json::parse(read_all(folder / "b.json"));
  EXPECT_EQ(events_of(second, "t").size(), kEventsPerTensor);
  EXPECT_EQ(dropped_in(second), 1u);
  expect_nested(second);

  ASSERT_OK(timeline.start(folder / "b.json", false));
  ASSERT_OK(timeline.stop());
  EXPECT_EQ(Json::parse(read_all(folder / "b.json")).size(), 2u);
}

TEST(Timeline, EveryEventIsInTheFileOrCountedAsDropped) {
  Folder folder;
  // Room for a few records only, and nothing that waits for the writer.
  Timeline timeline(0, 16 << 10);
  ASSERT_OK(timeline.start(folder / "t.json", false));
  std::vector<TensorId> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back(timeline.tensor("t" + std::to_string(i)));
  constexpr uint64_t kSteps = 200;
  for (uint64_t i = 0; i < kSteps; ++i) record_step(timeline, tensors);
  ASSERT_OK(timeline.stop());
  const Json trace = Json::parse(read_all(folder / "t.json"));
  expect_nested(trace);
  EXPECT_GT(dropped_in(trace), 0u);
  // The writer adds ends that were dropped, and the begin of an activity ends the one before. So
  // only begins and marks can be counted on both sides.
  uint64_t written = 0;
  for (const Json& event : trace) written += event["ph"] == "B" || event["ph"] == "X" ? 1 : 0;
  EXPECT_GT(written, 0u);
  EXPECT_LE(written, 7 * kSteps * tensors.size());
  EXPECT_GE(written + dropped_in(trace), 7 * kSteps * tensors.size());
}

TEST(Timeline, BatchesOfAnySizeAreWrittenWhole) {
  Folder folder;
  Timeline timeline(0);
  ASSERT_OK(timeline.start(folder / "t.json", false));
  std::vector<TensorId> tensors;
  for (int i = 0; i < 3000; ++i) tensors.push_back(timeline.tensor("t" + std::to_string(i)));
  record_step(timeline, tensors);
  ASSERT_OK(timeline.stop());
  const Json trace = Json::parse(read_all(folder / "t.json"));
  expect_nested(trace);
  EXPECT_EQ(trace.size(), 2 + tensors.size() * (2 + kEventsPerTensor));
}

TEST(Timeline, StartsAndStopsWhileThreadsTakeTurnsToRecord) {
  Folder folder;
  Timeline timeline(0);
  Mutex engine;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !done; ++i) {
        MutexLock lock(engine);
        if (!timeline.enabled()) continue;
        record_step(timeline, {timeline.tensor(std::to_string(t) + "." + std::to_string(i % 50))});
        ::usleep(50);
      }
    });
  }
  size_t events = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string path = folder / std::to_string(i % 3);
    ASSERT_OK(timeline.start(path, false));
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + i));
    if (i % 2 == 0) continue;  // ends when the next one starts
    ASSERT_OK(timeline.stop());
    const Json trace = Json::parse(read_all(path));
    expect_nested(trace);
    events += trace.size();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(events, 100u);
}

#ifndef HVD_THREAD_SANITIZER
TEST(Timeline, IsJsonWhereverAKillHitsIt) {
  Folder folder;
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    int started[2];
    ASSERT_EQ(::pipe(started), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Timeline timeline(0, 1 << 20);
      if (!timeline.start(folder / "t.json", false).is_ok()) ::_exit(1);
      (void)!::write(started[1], "x", 1);
      std::vector<TensorId> tensors;
      for (int t = 0; t < 1000; ++t) tensors.push_back(timeline.tensor("t" + std::to_string(t)));
      while (true) record_step(timeline, tensors);
    }
    char byte = 0;
    ASSERT_EQ(::read(started[0], &byte, 1), 1);
    // On a busy machine a writer of the lowest priority may take a while to begin.
    while (std::filesystem::file_size(folder / "t.json") <= 4096) ::usleep(100);
    ::usleep(random() % 40'000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ::close(started[0]);
    ::close(started[1]);
    const Json trace = Json::parse(read_all(folder / "t.json"), nullptr, false);
    ASSERT_FALSE(trace.is_discarded()) << "kill " << i;
  }
}
#endif

// Counts how often the thread called `name` of this process went to sleep.
int64_t sleeps_of(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (read_all(task.path() / "comm") != name + "\n") continue;
    const std::string status = read_all(task.path() / "status");
    const std::string key = "voluntary_ctxt_switches:";
    return std::stoll(status.substr(status.find("\n" + key) + 1 + key.size()));
  }
  return -1;
}

TEST(Timeline, WriterSleepsWhileNothingIsRecorded) {
  Folder folder;
  Timeline timeline(0);
  ASSERT_OK(timeline.start(folder / "t.json", false));
  record_step(timeline, {timeline.tensor("t")});
  while (Json::parse(read_all(folder / "t.json")).size() < 2 + 2 + kEventsPerTensor) ::usleep(1000);
  ::usleep(50'000);
  const int64_t before = sleeps_of("hvd-timeline");
  ASSERT_GT(before, 0);
  ::usleep(200'000);
  // Once more at most: on a busy machine it may not have been asleep again at the first look.
  EXPECT_LE(sleeps_of("hvd-timeline"), before + 1);
}

TEST(Timeline, EveryRankCanHaveAFileOfItsOwn) {
  EXPECT_EQ(Timeline::path_for_rank("/a.d/timeline.json", 3), "/a.d/timeline.3.json");
  EXPECT_EQ(Timeline::path_for_rank("/a.d/timeline", 12), "/a.d/timeline.12");
  EXPECT_EQ(name_of(Activity::kCclBcast), "CCL_BCAST");
  EXPECT_EQ(name_of(host_activity_of(*trace_op_of(RequestType::kAlltoall))), "MPI_ALLTOALL");
}

// Engines of several process sets record at the same time.
TEST(Timeline, KeepsWhatSeveralThreadsRecord) {
  constexpr int kThreads = 4;
  constexpr int kOperations = 2000;
  const Folder folder;
  Timeline timeline(0, size_t{64} << 20);
  ASSERT_OK(timeline.start(folder / "t.json", false));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&timeline, i] {
      for (int step = 0; step < kOperations; ++step) {
        const TensorId tensor =
            timeline.tensor("set " + std::to_string(i) + ": " + std::to_string(step % 100));
        timeline.operation_start(tensor, TraceOp::kAllreduce);
        timeline.operation_end(tensor);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(timeline.stop());
  const Json trace = Json::parse(read_all(folder / "t.json"));
  expect_nested(trace);
  EXPECT_EQ(dropped_in(trace), 0u);
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(events_of(trace, "set " + std::to_string(i) + ": 7").size(),
              size_t{2 * kOperations / 100});
  }
}

}  // namespace
}  // namespace hvd
