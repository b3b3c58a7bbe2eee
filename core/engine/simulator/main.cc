// SPDX-License-Identifier: Apache-2.0
// Runs worlds of simulated ranks from seeds, in one thread: the same seed, the same world.
//
//   simulator                 the seeds 0 to HVD_SIMULATOR_SEEDS - 1
//   simulator --seeds A-B     the seeds A to B
//   simulator --seed N        one seed; prints its last events if it fails
//
// The first world that violates a property ends the program, which prints how to run that one
// alone.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/simulator/world.h"

// Defined only with a sanitizer, which ends a program without a signal.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(  // NOLINT
    void (*callback)());

namespace hvd::simulator {
namespace {

#ifdef HVD_FEW_TARGETS  // the sanitizers' builds, which are ten times slower
constexpr uint64_t kSeeds = 1000;
#else
constexpr uint64_t kSeeds = 10000;
#endif

char how_to_replay[512];

void say_how_to_replay() {
  (void)!write(STDERR_FILENO, how_to_replay, std::string_view(how_to_replay).size());
}

// A crash prints its seed as well.
void on_crash(int signal) {
  say_how_to_replay();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void watch_for_crashes() {
  std::signal(SIGABRT, on_crash);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(say_how_to_replay);
  } else {
    std::signal(SIGSEGV, on_crash);
  }
}

bool run(std::string_view program, uint64_t seed) {
  *fmt::format_to_n(how_to_replay, sizeof(how_to_replay) - 1, "failed; again: {} --seed {}\n",
                    program, seed)
       .out = '\0';
  const Status outcome = World(seed).run();
  if (outcome.is_ok()) return true;
  World again(seed);
  again.keep_trace();
  (void)again.run();
  for (const std::string& line : again.trace()) fmt::print(stderr, "{}\n", line);
  fmt::print(stderr, "{}\n{}\n{}", again.scenario().to_string(), outcome.message(), how_to_replay);
  return false;
}

bool parse(std::string_view text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// The seeds from `begin` to `end` - 1.
bool seeds_from(int argc, char** argv, uint64_t& begin, uint64_t& end) {
  begin = 0;
  end = kSeeds;
  if (argc == 1) {
    const char* wanted = std::getenv("HVD_SIMULATOR_SEEDS");
    return wanted == nullptr || parse(wanted, end);
  }
  if (argc != 3) return false;
  const std::string_view given = argv[2];
  if (argv[1] == std::string_view("--seed")) {
    if (!parse(given, begin)) return false;
    end = begin + 1;
    return true;
  }
  const size_t dash = given.find('-');
  if (argv[1] != std::string_view("--seeds") || dash == std::string_view::npos) return false;
  if (!parse(given.substr(0, dash), begin) || !parse(given.substr(dash + 1), end)) return false;
  ++end;
  return true;
}

int simulate(int argc, char** argv) {
  uint64_t begin = 0;
  uint64_t end = 0;
  if (!seeds_from(argc, argv, begin, end)) {
    fmt::print(stderr, "usage: {} [--seed N | --seeds A-B]\n", argv[0]);
    return 2;
  }
  watch_for_crashes();
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t seed = begin; seed < end; ++seed) {
    if (!run(argv[0], seed)) return 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("{} worlds passed in {:.1f} s\n", end - begin, took.count());
  return 0;
}

}  // namespace
}  // namespace hvd::simulator

// NOLINTNEXTLINE(bugprone-exception-escape): a test program may end by one
int main(int argc, char** argv) { return hvd::simulator::simulate(argc, argv); }
