// SPDX-License-Identifier: Apache-2.0
// One rank of a job, as a process. ranks_test.cc sets its rank by the HOROVOD_* variables.
//
//   hvd_scenario <name> [<number>]
//
//   collectives   all collectives
//   seals         sealed bytes, of this job and of the one before
//   restart       <number> times init, allreduce, shutdown: no resource leaks
//   lost          reduces until rank <number> is lost, then continues without it. Prints "ready",
//                 then "lost <code> <time> <text>", then "again <size>"
//   exit          has an operation in flight, prints "ready"; at SIGUSR1 ends without a shutdown
//   fork          its children have no job, may start their own, and do not disturb other ranks
//
// It prints "ok" at the end, or "FAILED …".
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "capi/testing/scenario.h"

namespace scenario {
namespace {

#if defined(__has_feature)
#define HVD_HAS_FEATURE(x) __has_feature(x)
#else
#define HVD_HAS_FEATURE(x) 0
#endif
#if HVD_HAS_FEATURE(address_sanitizer) || HVD_HAS_FEATURE(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void expect_sum(int rounds = 1) {
  for (int i = 0; i < rounds; ++i) {
    std::vector<float> ones(100, 1);
    hvd::allreduce(ones, {.op = hvd::Op::kSum});
    EXPECT(ones == std::vector<float>(100, float(hvd::size())));
  }
}

size_t entries_of(const char* folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages >> pages;
  return pages * size_t(::sysconf(_SC_PAGESIZE));
}

void restart(int times) {
  size_t files = 0;
  size_t memory = 0;
  for (int i = 0; i < times; ++i) {
    hvd::init();
    expect_sum();
    hvd::shutdown();
    // A joined thread stays listed for some microseconds; a thread of a sanitizer stays forever.
    for (int look = 0; !kSanitized && look < 1000 && entries_of("/proc/self/task") > 1; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!kSanitized) EXPECT(entries_of("/proc/self/task") == 1);
    if (i == times / 10) {
      files = entries_of("/proc/self/fd");
      memory = resident_bytes();
    }
  }
  EXPECT(entries_of("/proc/self/fd") == files);
  const size_t grown = resident_bytes() - std::min(memory, resident_bytes());
  if (!kSanitized && grown > 2 << 20) say("grown by ", grown);
  if (!kSanitized) EXPECT(grown <= 2 << 20);
}

void lose_a_rank(int victim) {
  hvd::init();
  expect_sum();
  std::vector<float> alone(3);
  auto waiting = hvd::allreduce_async(alone, {.name = "only here " + std::to_string(hvd::rank())});
  say("ready");
  const hvd::Error error = failure_of([] { expect_sum(100'000'000); });
  say("lost ", error.code(), ' ', now_us(), ' ', error.what());
  EXPECT(failure_of([&] { waiting.get(); }).code() == error.code());
  EXPECT(failure_of([] { hvd::barrier(); }).code() == error.code());

  const int rank = hvd::rank();
  const int size = hvd::size();
  hvd::shutdown();
  ::setenv("HOROVOD_RANK", std::to_string(rank < victim ? rank : rank - 1).c_str(), 1);
  ::setenv("HOROVOD_SIZE", std::to_string(size - 1).c_str(), 1);
  hvd::init();
  EXPECT(hvd::size() == size - 1);
  expect_sum(10);
  say("again ", hvd::size());
  hvd::shutdown();
}

void exit_without_shutdown() {
  sigset_t go;
  sigemptyset(&go);
  sigaddset(&go, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &go, nullptr);
  hvd::init();
  expect_sum();
  // Never destroyed, because the destructors of futures wait. Static, so that the leak sanitizer
  // finds them reachable.
  static auto* const futures = new std::vector<hvd::Future<>>;
  static auto* const data = new std::vector<float>(5);
  futures->push_back(hvd::allreduce_async(*data, {.name = std::to_string(hvd::rank())}));
  std::thread([] { futures->front().wait(); }).detach();
  say("ready");
  int signal = 0;
  sigwait(&go, &signal);
}

// Ends a child with its exit handlers, except under a sanitizer: the leak sanitizer would report
// the memory of the parent's other threads as lost.
[[noreturn]] void end_child() {
  if (kSanitized) std::_Exit(0);
  std::exit(0);
}

template <typename Body>
void in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    end_child();
  }
  int status = -1;
  EXPECT(::waitpid(child, &status, 0) == child && status == 0);
}

void fork_children() {
  hvd::init();
  expect_sum();
  std::vector<float> values(3, 1);
  auto early = hvd::allreduce_async(values, {.op = hvd::Op::kSum});
  in_child([&] {
    EXPECT(!hvd::is_initialized() && hvd_rank() == -1);
    EXPECT(failure_of([&] { hvd::barrier(); }).code() == HVD_NOT_INITIALIZED);
    hvd::shutdown();
  });
  in_child([] {
    for (const char* name : {"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_RENDEZVOUS"})
      ::unsetenv(name);
    hvd::init();
    EXPECT(hvd::size() == 1);
    expect_sum();
    hvd::shutdown();
  });
  early.get();
  EXPECT(values[0] == float(hvd::size()));
  expect_sum(10);
  hvd::barrier();
  hvd::shutdown();
}

// Rank 0 writes a timeline and is a member of one of two process sets.
void trace_process_sets() {
  hvd::init({.process_sets = {{0, 1}, {1, 2}}});
  std::vector<float> values(3, 1);
  hvd::allreduce(values, {.name = "of all"});
  if (hvd::rank() < 2) hvd::allreduce(values, {.name = "of a set", .process_set = 1});
  if (hvd::rank() > 0) hvd::allreduce(values, {.name = "elsewhere", .process_set = 2});
  hvd::shutdown();
}

int run(const std::string& name, int number) {
  if (name == "collectives") {
    run_collectives();
  } else if (name == "seals") {
    run_seals();
  } else if (name == "restart") {
    restart(number);
  } else if (name == "lost") {
    lose_a_rank(number);
  } else if (name == "exit") {
    exit_without_shutdown();
  } else if (name == "fork") {
    fork_children();
  } else if (name == "trace") {
    trace_process_sets();
  } else {
    return 2;
  }
  say("ok");
  return 0;
}

}  // namespace
}  // namespace scenario

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    return scenario::run(argv[1], argc > 2 ? std::atoi(argv[2]) : -1);
  } catch (const std::exception& error) {
    scenario::say("FAILED on rank ", hvd_rank(), ": ", error.what());
    std::_Exit(1);
  }
}
