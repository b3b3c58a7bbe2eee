// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_probe.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "base/deadline.h"
#include "launcher/host_checks.h"
#include "launcher/plan/system_info.h"

namespace hvd::launcher {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Together one second per path: short enough for a ring of many hosts, and hundreds of round trips
// even on a slow network.
constexpr milliseconds kLatencyTime{300};
constexpr milliseconds kBandwidthTime{700};
// Bytes per request of the bandwidth measurement: large enough that its round trip does not count.
constexpr size_t kBlock = size_t{4} << 20;

// Prints a line per framework, such as "torch 2.1.0 (horovod.torch)". It finds packages without
// importing them, because an import takes seconds. The doctor compares these lines between hosts.
constexpr char kFindFrameworks[] = R"python(
import importlib.metadata as m, importlib.util as u, os
h = u.find_spec("horovod")
places = list(h.submodule_search_locations or ()) if h else []
for n in ("torch", "tensorflow", "keras", "mxnet", "jax"):
    if u.find_spec(n):
        try: v = m.version(n)
        except m.PackageNotFoundError: v = "(unknown version)"
        if any(os.path.isdir(os.path.join(p, n)) for p in places): by = f"horovod.{n}"
        else: by = "not served by this build" if h else "horovod is not installed there"
        print(f"{n} {v} ({by})")
)python";

// Empty if there is no Python, or if it fails or takes longer than 5 s.
std::vector<std::string> frameworks() {
  const auto found = run_python(this_system(), kFindFrameworks);
  std::vector<std::string> lines;
  std::istringstream text(found.is_ok() ? *found : "");
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// The CPUs that this process may use, which are fewer than the machine has under taskset or a
// cpuset.
uint32_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  return std::thread::hardware_concurrency();
}

// Free bytes in /dev/shm; 0 if it cannot be read.
uint64_t free_shared_memory() {
  struct statvfs space {};
  return ::statvfs("/dev/shm", &space) == 0 ? uint64_t{space.f_bavail} * space.f_frsize : 0;
}

// The median, which single slow round trips do not move.
Result<nanoseconds> round_trip(RendezvousClient& rendezvous) {
  std::vector<nanoseconds> times;
  for (const Deadline end = Deadline::after(kLatencyTime); !end.expired();) {
    const auto start = Clock::now();
    HVD_TRY(rendezvous.add("doctor/count", 1).status());
    times.push_back(Clock::now() - start);
  }
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Overwrites one key, so that the server's memory does not grow.
Result<uint64_t> bytes_per_second(RendezvousClient& rendezvous) {
  const std::string block(kBlock, 'x');
  const auto start = Clock::now();
  uint64_t bytes = 0;
  for (const Deadline end = Deadline::after(kBandwidthTime); !end.expired(); bytes += kBlock) {
    HVD_TRY(rendezvous.set("doctor/block", block));
  }
  const std::chrono::duration<double> passed = Clock::now() - start;
  return static_cast<uint64_t>(static_cast<double>(bytes) / passed.count());
}

// Fills `measured` as far as it gets; `via` is set as soon as an address has answered.
Status try_measure(const StartRanks& way, Measurement& measured) {
  HVD_TRY_ASSIGN(const Endpoint endpoint, find_rendezvous(way));
  measured.via = endpoint.to_string();
  HVD_TRY_ASSIGN(const Secret secret, Secret::from_base64(way.secret.text()));
  HVD_TRY_ASSIGN(const auto rendezvous,
                 RendezvousClient::connect(measured.via, secret, way.tls,
                                           Deadline::after(std::chrono::seconds(2))));
  HVD_TRY_ASSIGN(const nanoseconds time, round_trip(*rendezvous));
  measured.round_trip_ns = static_cast<uint64_t>(time.count());
  HVD_TRY_ASSIGN(measured.bytes_per_second, bytes_per_second(*rendezvous));
  return Status::ok();
}

}  // namespace

int64_t wall_clock_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Findings HostProbe::probe(const ProbeHost& request) {
  request_ = request;
  Findings findings;
  findings.cpus = usable_cpus();
  findings.shared_memory = free_shared_memory();
  findings.frameworks = frameworks();
  const auto interfaces = local_interfaces({});
  for (const Interface& each : interfaces.is_ok() ? *interfaces : std::vector<Interface>()) {
    findings.interfaces.push_back(
        fmt::format("{} {}/{}", each.name, each.address.host(), each.prefix_length));
  }
  // Listens on all allowed interfaces, as the rendezvous server of a job on several hosts would.
  const auto secret = Secret::from_base64(request.secret.text());
  if (secret.is_ok()) {
    auto rendezvous =
        start_rendezvous(*secret, /*one_host=*/false, request.interfaces, request.tls);
    if (rendezvous.is_ok()) {
      rendezvous_ = std::move(*rendezvous);
      findings.rendezvous = rendezvous_.addresses;
    } else {
      findings.problem = rendezvous.status().message();
    }
  }
  findings.clock_us = wall_clock_us();  // last, right before the result is sent
  return findings;
}

Measurement HostProbe::measure(const MeasurePeer& peer) const {
  // find_rendezvous() takes the fields of a job; the peer's server uses the same secret and TLS
  // setting.
  StartRanks way;
  way.secret = request_.secret;
  way.tls = request_.tls;
  way.rendezvous = peer.rendezvous;
  Measurement measured;
  measured.problem = try_measure(way, measured).message();
  return measured;
}

}  // namespace hvd::launcher
