// SPDX-License-Identifier: Apache-2.0
// Messages between the launcher and its agents (one per host): one frame per message, over the
// agent's standard input and output.
//
//   launcher                       agent
//      |  <---- AgentReady ---------  |   after the preamble (link.h)
//      |  ----- StartRanks -------->  |   when every host is ready
//      |  <---- RankStarted, RankOutput, RankExited, AgentWarning
//      |  ----- GrantCredit ------->  |   as output is printed
//      |  ----- StopRanks --------->  |   if the job is to end early
//      |  <---- AgentDone ----------  |   no process is left, all output is sent
//
// Payload of a frame: 1 byte index of the message in `Message`, then its fields in the order of
// protocol.cc, in the encoding of net/codec.h. Both sides have the same version (AgentReady), so
// the format has no version of its own. A malformed message ends the connection.
//
// The secret is sent in StartRanks and ProbeHost, and so never appears on a command line.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "launcher/launch.h"
#include "net/codec.h"

namespace hvd::launcher {

enum class OutputStream : uint8_t { kStdout = 0, kStderr = 1 };

// Interval of Alive between the launcher and a remote agent. Each side treats 7 s of silence as the
// loss of the other side. So a cut cable is detected.
inline constexpr std::chrono::milliseconds kAliveEvery{1'000};

// ---- From the launcher --------------------------------------------------------------------------

struct StartRanks {
  std::vector<Slot> slots;
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value", on top of the host's own
  std::string directory;
  SecretText secret;
  std::vector<std::string> rendezvous;  // endpoints of the rendezvous server; any one suffices
  std::vector<std::string> interfaces;  // allowed ones, if the host has them; empty: all
  bool one_host = false;                // the job is on this host only: loopback suffices
  bool tls = false;
  bool operator==(const StartRanks&) const = default;
};

// Bytes of rank output that an agent may send before it needs GrantCredit. Bounds the memory of the
// launcher to 1 MiB per host.
inline constexpr uint64_t kOutputWindow = uint64_t{1} << 20;

// Allows this many more bytes of RankOutput.
struct GrantCredit {
  uint64_t bytes = 0;
  bool operator==(const GrantCredit&) const = default;
};

// Send SIGTERM now, and SIGKILL after `grace_ms` to the processes that are left. 0: SIGKILL at
// once.
struct StopRanks {
  uint32_t grace_ms = 0;
  bool operator==(const StopRanks&) const = default;
};

// The launcher is about to be suspended (Ctrl-Z), or was resumed. In between its silence is
// expected.
struct Suspend {
  bool suspended = false;
  bool operator==(const Suspend&) const = default;
};

// ---- From both ---------------------------------------------------------------------------------

struct Alive {
  bool operator==(const Alive&) const = default;
};

// ---- From an agent -----------------------------------------------------------------------------

// The agent's first message.
struct AgentReady {
  std::string version;
  std::string host_name;  // as gethostname() returns it
  bool operator==(const AgentReady&) const = default;
};

struct RankStarted {
  int32_t rank = 0;
  int32_t pid = 0;
  bool operator==(const RankStarted&) const = default;
};

// Output of a rank; empty `bytes` means that the stream has ended.
struct RankOutput {
  int32_t rank = 0;
  OutputStream stream = OutputStream::kStdout;
  std::string bytes;
  bool operator==(const RankOutput&) const = default;
};

struct RankExited {
  int32_t rank = 0;
  int32_t status = 0;  // as waitpid gives it
  bool operator==(const RankExited&) const = default;
};

// A message for the user; the job continues.
struct AgentWarning {
  std::string text;
  bool operator==(const AgentWarning&) const = default;
};

// The agent cannot execute a request. It stops its ranks, if there are any.
struct AgentFailed {
  std::string text;
  bool operator==(const AgentFailed&) const = default;
};

// No process of the job is left on its host, and all output has been sent.
struct AgentDone {
  bool operator==(const AgentDone&) const = default;
};

// ---- For horovodrun --doctor -------------------------------------------------------------------

// Requests Findings, and starts a rendezvous server that other hosts can measure the path to.
struct ProbeHost {
  SecretText secret;
  std::vector<std::string> interfaces;  // as in StartRanks
  bool tls = false;
  bool operator==(const ProbeHost&) const = default;
};

struct Findings {
  uint32_t cpus = 0;
  uint64_t shared_memory = 0;           // free bytes in /dev/shm
  int64_t clock_us = 0;                 // wall clock when this was sent
  std::vector<std::string> interfaces;  // "eth0 10.0.0.1/24"
  std::vector<std::string> frameworks;  // "torch 2.1.0 (horovod.torch)"
  std::vector<std::string> rendezvous;  // addresses of its server
  std::string problem;                  // why it has none; otherwise empty
  bool operator==(const Findings&) const = default;
};

// Requests a Measurement of the path to the host that listens at one of these addresses.
struct MeasurePeer {
  std::vector<std::string> rendezvous;
  bool operator==(const MeasurePeer&) const = default;
};

struct Measurement {
  std::string via;  // the address that was used
  uint64_t round_trip_ns = 0;
  uint64_t bytes_per_second = 0;
  std::string problem;  // why the measurement failed; otherwise empty
  bool operator==(const Measurement&) const = default;
};

// The order is part of the format.
using Message = std::variant<StartRanks, GrantCredit, StopRanks, Suspend, Alive, AgentReady,
                             RankStarted, RankOutput, RankExited, AgentWarning, AgentFailed,
                             AgentDone, ProbeHost, Findings, MeasurePeer, Measurement>;

ByteBuffer encode(const Message& message);
Result<Message> decode(ConstBytes bytes);

}  // namespace hvd::launcher
