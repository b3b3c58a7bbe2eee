// SPDX-License-Identifier: Apache-2.0
// Decides what the launcher does about events. It has no I/O: it takes events and returns
// decisions, which run.cc executes.
//
// Stages of a host:
//
//   kConnecting --host_ready--> kReady --all hosts ready--> kRunning --host_done--> kEnded
//        |                        |                             |
//        +-- failed, gone, silent, job stopped: decision kDrop -+----------------> kEnded
//
// No rank starts before every host is ready, so an unreachable host wastes no work. After the
// start, the first failure of a rank or a host, or a signal, ends the job: every agent gets kStop.
// An agent that does not report its end in time is dropped; it then loses the connection to the
// launcher and kills its ranks by itself.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"

namespace hvd::launcher {

// Defaults for real jobs; tests set shorter ones.
struct Timeouts {
  using Time = std::chrono::milliseconds;
  Time start{30'000};             // for all hosts to be ready
  Time after_unreachable{5'000};  // the same, once one host has failed
  Time silence{7'000};            // after which a remote host counts as lost
  Time grace{5'000};              // between SIGTERM and SIGKILL
  Time short_grace{2'000};        // the same after `silence`: 10 s in total at most
  Time final_report{3'000};       // for agents to report their end after the grace period
  Time failure_window{300};       // for the exit of a killed rank: see failed_rank()
};

struct HostPlan {
  std::string name;
  bool remote = false;
  std::vector<int> ranks;
};

struct Decision {
  enum class Kind {
    kStart,  // send StartRanks to `host`
    kStop,   // send StopRanks with `grace`
    kDrop,   // close the connection; end the ssh of a host that has not sent AgentDone
    kPrint,  // print `text` to standard error
  };
  Kind kind;
  size_t host = 0;
  Timeouts::Time grace{0};
  std::string text;
};

// The state of a rank.
struct RankState {
  size_t host = 0;
  int pid = 0;
  std::optional<int> status;  // of waitpid, once it has ended
};

// Used by one thread. It never reads a clock: every event has its time, and times must not
// decrease. After any event call take_decisions(), and call tick() at next_deadline().
class Supervision {
 public:
  using Time = Deadline::Clock::time_point;
  Supervision(std::vector<HostPlan> hosts, Timeouts timeouts, Time now);

  // ---- Events
  void host_ready(size_t host, Time now);
  // The host cannot take part, for the reason `why`. If its ranks run, host_done() is still called
  // later.
  void host_failed(size_t host, const std::string& why, Time now);
  void host_done(size_t host, Time now);
  // The connection to the agent has ended unexpectedly.
  void host_gone(size_t host, const std::string& why, Time now) {
    lose(host, why, timeouts_.grace, now);
  }
  void heard_from(size_t host, Time now);
  void rank_started(int rank, int pid);
  // `status` is waitpid's. A status other than 0 ends the job.
  void rank_exited(int rank, int status, Time now);
  void interrupted(int signal, Time now);
  void output_failed(const std::string& why, Time now);
  // The launcher was suspended and could not receive: restarts the measurement of silence.
  void resumed(Time now);
  // Applies timeouts that have passed.
  void tick(Time now);

  // ---- What follows
  // When to call tick() next.
  Deadline next_deadline() const;
  // In the order of the events; each is returned once.
  std::vector<Decision> take_decisions();
  // Every host has ended or was dropped.
  bool finished() const;
  // 0; 1 after a failure; 128 + signal when interrupted.
  int exit_code() const;
  // Whether the job was ended from outside: by a signal, or because standard output failed.
  bool was_interrupted() const { return signal_ != 0; }
  // The rank that probably caused the failure. It is the first rank that failed, or a rank that was
  // killed by a signal and whose exit was reported within failure_window after the first failure: a
  // killed rank is often reaped after the ranks that failed because of its loss. Final once
  // failure_window has passed.
  std::optional<int> failed_rank() const { return failed_rank_; }
  const std::vector<RankState>& ranks() const { return ranks_; }
  const std::vector<HostPlan>& hosts() const { return plans_; }

 private:
  // See the diagram at the top. kEnded is final.
  enum class Stage { kConnecting, kReady, kRunning, kEnded };
  struct HostState {
    Stage stage = Stage::kConnecting;
    Time heard{};
  };

  bool all_ready() const;
  bool is_watched(size_t host) const;
  void print_message(std::string text);
  void drop(size_t host);
  void lose(size_t host, const std::string& why, Timeouts::Time grace, Time now);
  void fail(Time now) { fail(timeouts_.grace, now); }
  void fail(Timeouts::Time grace, Time now);
  void stop(Timeouts::Time grace, Time now);
  void announce_failed_rank();
  void check_start(Time now);
  void check_silence(Time now);

  const std::vector<HostPlan> plans_;
  const Timeouts timeouts_;
  std::vector<HostState> hosts_;
  std::vector<RankState> ranks_;
  std::vector<Decision> decisions_;
  Time start_by_;
  std::optional<Time> end_by_;  // once stopping
  std::optional<Time> failed_rank_final_at_;
  std::optional<int> failed_rank_;
  int signal_ = 0;
  bool failed_ = false;
};

}  // namespace hvd::launcher
