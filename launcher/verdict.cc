// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "launcher/doctor.h"

namespace hvd::launcher {
namespace {

// The ranks of a host share about 20 MiB, plus the same for each process set. Containers often
// start with 64 MiB.
constexpr uint64_t kEnoughSharedMemory = uint64_t{128} << 20;
constexpr int64_t kClockTolerance = 1'000'000;  // us; includes the latency of ssh
constexpr double kSlowNetwork = 100e6;          // bytes per second: less than gigabit Ethernet

// Builds the text of a verdict. "[ok]" is a passed check, "[--]" information, "[!!]" a problem.
class Writer {
 public:
  void title(const std::string& text) { verdict_.text += fmt::format("\n{}\n", text); }
  void good(const std::string& text) { verdict_.text += fmt::format("  [ok] {}\n", text); }
  void note(const std::string& text) { verdict_.text += fmt::format("  [--] {}\n", text); }
  void bad(const std::string& text) {
    verdict_.text += fmt::format("  [!!] {}\n", text);
    ++verdict_.problems;
  }
  void check(bool well, const std::string& fact, const std::string& remedy) {
    if (well) {
      good(fact);
    } else {
      bad(fact + ": " + remedy);
    }
  }
  Verdict finish() {
    verdict_.text +=
        verdict_.problems == 0
            ? "\nNo problems found.\n"
            : fmt::format("\n{} to fix, marked [!!].\n",
                          verdict_.problems == 1 ? "One thing"
                                                 : fmt::format("{} things", verdict_.problems));
    return std::move(verdict_);
  }

 private:
  Verdict verdict_;
};

std::string joined(const std::vector<std::string>& items, const char* otherwise) {
  return items.empty() ? otherwise : fmt::format("{}", fmt::join(items, ", "));
}

// `reference` is the first host with findings; the frameworks of all hosts are compared to it.
void write_host(const HostRecord& host, const HostRecord* reference, Writer& out) {
  out.title(host.name + (host.remote ? "" : " (this machine)"));
  if (!host.findings.has_value()) return out.bad(host.trouble);
  const Findings& found = *host.findings;
  out.good(fmt::format("{}, horovodrun {}", host.remote ? "reached by ssh" : "here", host.version));
  out.check(static_cast<uint32_t>(host.slots) <= found.cpus,
            fmt::format("{} CPUs for {} slots", found.cpus, host.slots),
            "ranks will share CPUs; give the host fewer slots");
  out.check(found.shared_memory >= kEnoughSharedMemory,
            fmt::format("{} MiB free in /dev/shm", found.shared_memory >> 20),
            "make it larger (docker run --shm-size=1g), or set HOROVOD_SHM_DISABLE=1");
  if (host.remote) {
    const double ahead = static_cast<double>(host.clock_ahead_us) / 1e6;
    out.check(std::abs(host.clock_ahead_us) <= kClockTolerance,
              fmt::format("clock differs by {:.1f} s", ahead),
              "times in logs and timelines will not match; let NTP set it");
  }
  out.note("interfaces: " + joined(found.interfaces, "none"));
  out.note("frameworks in python3: " + joined(found.frameworks, "none"));
  if (!found.problem.empty()) out.bad(found.problem);
  if (reference != nullptr && reference->findings->frameworks != found.frameworks) {
    out.bad(fmt::format("other frameworks or versions than on {}: install the same everywhere",
                        reference->name));
  }
}

// One line per measured path.
void write_path(const std::vector<HostRecord>& hosts, const PathRecord& path, Writer& out) {
  const Measurement& measured = path.measured;
  const std::string ends = fmt::format("{} to {}", hosts[path.from].name, hosts[path.to].name);
  if (!measured.problem.empty()) return out.bad(fmt::format("{}: {}", ends, measured.problem));
  out.check(static_cast<double>(measured.bytes_per_second) >= kSlowNetwork,
            fmt::format("{} ({}): round trip {:.0f} us, {:.0f} MB/s", ends, measured.via,
                        static_cast<double>(measured.round_trip_ns) / 1e3,
                        static_cast<double>(measured.bytes_per_second) / 1e6),
            "slow for training; if there is a faster network, name it with --network-interfaces");
}

}  // namespace

Verdict make_verdict(const std::vector<HostRecord>& hosts, const std::vector<PathRecord>& paths) {
  Writer out;
  const HostRecord* reference = nullptr;
  for (const HostRecord& host : hosts) {
    write_host(host, reference, out);
    if (reference == nullptr && host.findings.has_value()) reference = &host;
  }
  if (!paths.empty()) out.title("Network");
  for (const PathRecord& path : paths) write_path(hosts, path, out);
  return out.finish();
}

}  // namespace hvd::launcher
