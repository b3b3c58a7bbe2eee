// SPDX-License-Identifier: Apache-2.0
// What the launcher does about what happens: pure, events in, decisions out; run.cc carries them
// out.
//
// No rank starts before every host is ready, so a host that cannot be reached costs nothing. From
// then on the first failure, of a rank or a host, and likewise a signal, ends the job: all agents
// are told to stop, and whoever has not said in time that nothing is left is given up; its agent
// then misses the launcher and ends its ranks by itself.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"

namespace hvd::launcher {

struct Timeouts {
  using Time = std::chrono::milliseconds;
  Time start{30'000};             // for all hosts to be ready
  Time after_unreachable{5'000};  // for the others, once one host has failed to be
  Time silence{7'000};            // of a remote host, before it counts as lost
  Time grace{5'000};              // between SIGTERM and SIGKILL
  Time short_grace{2'000};        // the same once a silence has used up the time
  Time final_report{3'000};       // for agents to report, when the grace is over
  Time failure_window{300};       // for a worse failure to show up than the first one
};

struct HostPlan {
  std::string name;
  bool remote = false;
  std::vector<int> ranks;
};

struct Decision {
  enum class Kind {
    kStart,  // tell the host to start its ranks
    kStop,   // tell it to stop them, with `grace`
    kDrop,   // close the connection, and end what holds it
    kPrint,  // `text`, on standard error
  };
  Kind kind;
  size_t host = 0;
  Timeouts::Time grace{0};
  std::string text;
};

// What became of a rank.
struct RankState {
  size_t host = 0;
  int pid = 0;
  std::optional<int> status;  // as waitpid gives it, once it has ended
};

class Supervision {
 public:
  using Time = Deadline::Clock::time_point;
  Supervision(std::vector<HostPlan> hosts, Timeouts timeouts, Time now);

  // ---- Events
  void host_ready(size_t host, Time now);
  // It cannot take part, and why; a host that was ready will still say that it is done.
  void host_failed(size_t host, const std::string& why, Time now);
  void host_done(size_t host, Time now);
  // The connection has ended.
  void host_gone(size_t host, const std::string& why, Time now) {
    lose(host, why, timeouts_.grace, now);
  }
  void heard_from(size_t host, Time now);
  void rank_started(int rank, int pid);
  void rank_exited(int rank, int status, Time now);
  void interrupted(int signal, Time now);
  void output_failed(const std::string& why, Time now);
  // The launcher was suspended; nobody could be heard.
  void resumed(Time now);
  void tick(Time now);

  // ---- What follows
  Deadline next_deadline() const;
  std::vector<Decision> take_decisions();
  bool finished() const;
  // 0; 1 after a failure; 128 + signal when interrupted.
  int exit_code() const;
  // From outside: by a signal, or because nobody takes the output.
  bool was_interrupted() const { return signal_ != 0; }
  // The rank that failed first, or rather the one that made the others fail: one killed by a signal
  // is often reaped after those that missed it.
  std::optional<int> failed_rank() const { return failed_rank_; }
  const std::vector<RankState>& ranks() const { return ranks_; }
  const std::vector<HostPlan>& hosts() const { return plans_; }

 private:
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
