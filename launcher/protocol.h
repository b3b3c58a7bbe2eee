// SPDX-License-Identifier: Apache-2.0
// What the launcher and its agents, one on each host, say to each other: one frame per message,
// over the agent's standard input and output.
//
// All that is secret travels here, in StartRanks, and so never stands on a command line.
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

// How often both sides say that they are there, so that a cut cable is noticed.
inline constexpr std::chrono::milliseconds kAliveEvery{1'000};

// ---- From the launcher --------------------------------------------------------------------------

struct StartRanks {
  std::vector<Slot> slots;
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value", over what the host itself has
  std::string directory;
  SecretText secret;
  std::vector<std::string> rendezvous;  // endpoints of the rendezvous server; one of them is enough
  std::vector<std::string> interfaces;  // those of them that the host has; empty: all
  bool one_host = false;                // the whole job: the loopback interface is enough
  bool tls = false;
  bool operator==(const StartRanks&) const = default;
};

// What an agent may send of its ranks' output before it is granted more.
inline constexpr uint64_t kOutputWindow = uint64_t{1} << 20;

// So many more bytes of output may be sent.
struct GrantCredit {
  uint64_t bytes = 0;
  bool operator==(const GrantCredit&) const = default;
};

// SIGTERM now, SIGKILL for what is left after `grace_ms`.
struct StopRanks {
  uint32_t grace_ms = 0;
  bool operator==(const StopRanks&) const = default;
};

// The launcher is about to be suspended, or is back: until then its silence means nothing.
struct Suspend {
  bool suspended = false;
  bool operator==(const Suspend&) const = default;
};

// ---- From both
// -----------------------------------------------------------------------------------

struct Alive {
  bool operator==(const Alive&) const = default;
};

// ---- From an agent
// -------------------------------------------------------------------------------

struct AgentReady {
  std::string version;
  std::string host_name;  // as the host calls itself
  bool operator==(const AgentReady&) const = default;
};

struct RankStarted {
  int32_t rank = 0;
  int32_t pid = 0;
  bool operator==(const RankStarted&) const = default;
};

// No bytes: the stream has ended.
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

struct AgentWarning {
  std::string text;
  bool operator==(const AgentWarning&) const = default;
};

// It cannot do what it was told; its ranks, if there are any, are being ended.
struct AgentFailed {
  std::string text;
  bool operator==(const AgentFailed&) const = default;
};

// No process of the job is left on its host, and all output has been sent.
struct AgentDone {
  bool operator==(const AgentDone&) const = default;
};

// ---- For horovodrun --doctor
// ---------------------------------------------------------------------

// Asks what the host has, and to serve a rendezvous server that others can measure the way to.
struct ProbeHost {
  SecretText secret;
  std::vector<std::string> interfaces;  // as in StartRanks
  bool tls = false;
  bool operator==(const ProbeHost&) const = default;
};

struct Findings {
  uint32_t cpus = 0;
  uint64_t shared_memory = 0;           // bytes that are free in /dev/shm
  int64_t clock_us = 0;                 // when this was sent
  std::vector<std::string> interfaces;  // "eth0 10.0.0.1/24"
  std::vector<std::string> frameworks;  // "torch 2.1.0 (horovod.torch)"
  std::vector<std::string> rendezvous;  // where it listens
  std::string problem;                  // why it does not
  bool operator==(const Findings&) const = default;
};

// Asks how fast the way to another host is, which listens at one of these.
struct MeasurePeer {
  std::vector<std::string> rendezvous;
  bool operator==(const MeasurePeer&) const = default;
};

struct Measurement {
  std::string via;
  uint64_t round_trip_ns = 0;
  uint64_t bytes_per_second = 0;
  std::string problem;  // why there is nothing to say
  bool operator==(const Measurement&) const = default;
};

using Message = std::variant<StartRanks, GrantCredit, StopRanks, Suspend, Alive, AgentReady,
                             RankStarted, RankOutput, RankExited, AgentWarning, AgentFailed,
                             AgentDone, ProbeHost, Findings, MeasurePeer, Measurement>;

ByteBuffer encode(const Message& message);
Result<Message> decode(ConstBytes bytes);

}  // namespace hvd::launcher
