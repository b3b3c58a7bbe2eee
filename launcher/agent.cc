// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "launcher/environment.h"
#include "launcher/guardian.h"
#include "launcher/host_checks.h"
#include "launcher/host_probe.h"
#include "launcher/link.h"
#include "launcher/messages.h"
#include "launcher/processes.h"
#include "launcher/report.h"
#include "launcher/signals.h"
#include "net/poller.h"

namespace hvd::launcher {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

// Silence and grace together take less than ten seconds. So no rank runs longer than that after a
// cable is cut.
constexpr milliseconds kSilenceTimeout{7'000};
constexpr milliseconds kGraceAfterSilence{2'000};
constexpr milliseconds kGrace{5'000};
// Time between SIGTERM and SIGKILL for processes that still run when all ranks have ended.
constexpr milliseconds kGraceForOrphans{1'000};
// SIGKILL is repeated because a process may fork after the walk of the process tree and before the
// signal.
constexpr milliseconds kKillInterval{50};
// A process that still exists this long after SIGKILL is in an uninterruptible wait in the kernel.
// The agent reports it and exits without it.
constexpr milliseconds kKillTimeout{3'000};
// How long the agent of a stopped job waits for credit before it discards the remaining output.
constexpr milliseconds kDrainTimeout{2'000};
constexpr size_t kReadSize = size_t{64} << 10;

// Tokens of the poller; stream i of streams_ has kFirstStream + i.
enum Token : uint64_t { kInput, kOutput, kSignal, kFirstStream };

// The read end of a pipe from a rank; invalid once the stream has ended.
struct Stream {
  int rank;
  OutputStream which;
  Fd fd;
};

struct Rank {
  int rank;
  pid_t pid;
  bool ended = false;
};

// The event loop of one agent: one thread, no locks. It waits in Poller::wait(). Only the host
// checks before the start and the probes of the doctor block it elsewhere, for some seconds at
// most.
class Agent {
 public:
  Agent(bool remote, Signals signals, std::unique_ptr<Poller> poller)
      : watch_(remote),
        signals_(std::move(signals)),
        poller_(std::move(poller)),
        link_(Link::Side::kAgent, Fd(STDIN_FILENO), Fd(STDOUT_FILENO)) {}

  Status run() {
    HVD_TRY(poller_->add(link_.in(), kReadable, kInput));
    HVD_TRY(poller_->add(signals_.fd(), kReadable, kSignal));
    char name[256] = "";
    (void)::gethostname(name, sizeof(name) - 1);
    link_.send(AgentReady{HVD_VERSION, name});
    std::vector<PollEvent> events;
    while (!over()) {
      HVD_TRY(poll_for_output());
      HVD_TRY(poller_->wait(events, next_deadline()));
      for (const PollEvent& event : events) on_event(event);
      on_time();
    }
    return Status::ok();
  }

 private:
  // ---- The launcher

  void on_event(const PollEvent& event) {
    if (event.token == kInput) return on_input();
    if (event.token == kSignal) return on_signals();
    if (event.token == kOutput) return link_.flush();
    const size_t index = event.token - kFirstStream;
    if (streams_[index].fd.valid()) (void)forward_output(streams_[index]);
  }

  void on_input() {
    heard_ = Clock::now();
    Status status = link_.fill().status();
    while (status.is_ok()) {
      auto message = link_.next();
      if (message.is_ok() && !message->has_value()) return;
      status = message.status();
      if (status.is_ok()) on_message(**message);
    }
    on_launcher_lost(kGrace);
  }

  void on_message(const Message& message) {
    if (const auto* start = std::get_if<StartRanks>(&message)) start_ranks(*start);
    if (const auto* more = std::get_if<GrantCredit>(&message)) grant(more->bytes);
    if (const auto* stop = std::get_if<StopRanks>(&message)) {
      stopped_by_launcher_ = true;
      stop_ranks(milliseconds(stop->grace_ms));
    }
    if (const auto* suspend = std::get_if<Suspend>(&message)) suspended_ = suspend->suspended;
    if (const auto* examine = std::get_if<ProbeHost>(&message)) {
      link_.send(probe_.probe(*examine));
    }
    if (const auto* peer = std::get_if<MeasurePeer>(&message)) {
      link_.send(probe_.measure(*peer));
    }
    heard_ = Clock::now();  // probes and measurements take seconds
  }

  // From now on output is read and dropped, so that ranks do not block while they end.
  void on_launcher_lost(milliseconds grace) {
    if (launcher_lost_) return;
    launcher_lost_ = true;
    poller_->remove(link_.in());
    resume_streams();
    stop_ranks(grace);
  }

  // Polls the link for writing only while there is something to write: the poller is
  // level-triggered and would otherwise return at once.
  Status poll_for_output() {
    link_.flush();
    const bool wanted = link_.wants_write() && !launcher_lost_;
    if (wanted == polled_for_output_) return Status::ok();
    polled_for_output_ = wanted;
    if (wanted) return poller_->add(link_.out(), kWritable, kOutput);
    poller_->remove(link_.out());
    return Status::ok();
  }

  // ---- Ranks

  void start_ranks(const StartRanks& job) {
    started_ = true;
    const Status status = try_start(job);
    if (status.is_ok()) return;
    link_.send(AgentFailed{status.message()});
    stop_ranks(milliseconds(0));
  }

  // Ranks die with the agent (parent_death_signal), and their descendants become its children
  // (subreaper), so that reap() and descendants() see all of them.
  Status try_start(const StartRanks& job) {
    HVD_TRY(become_subreaper());
    HVD_TRY_ASSIGN(const Endpoint rendezvous, find_rendezvous(job));
    HVD_TRY_ASSIGN(const std::vector<std::string> interfaces, usable_interfaces(job));
    std::vector<std::string> own;
    for (char** variable = environ; *variable != nullptr; ++variable) own.emplace_back(*variable);
    std::string warning;
    SpawnOptions options;
    options.directory = usable_directory(job, warning);
    if (!warning.empty()) link_.send(AgentWarning{warning});
    options.command = job.command;
    options.take_stderr = true;
    options.parent_death_signal = SIGKILL;
    for (const Slot& slot : job.slots) {
      options.environment = rank_environment(own, job, slot, rendezvous, interfaces);
      auto child = spawn(options);
      if (!child.is_ok()) {
        return unavailable(explain_command(job.command.front(), child.status()));
      }
      HVD_TRY(watch_rank(slot.rank, std::move(*child)));
    }
    return Status::ok();
  }

  Status watch_rank(int rank, Child child) {
    ranks_.push_back({rank, child.pid});
    link_.send(RankStarted{rank, child.pid});
    streams_.push_back({rank, OutputStream::kStdout, std::move(child.output)});
    streams_.push_back({rank, OutputStream::kStderr, std::move(child.error)});
    for (size_t i = streams_.size() - 2; i < streams_.size(); ++i) {
      const int fd = streams_[i].fd.get();
      (void)::fcntl(fd, F_SETFL, O_NONBLOCK);
      if (!paused_) HVD_TRY(poller_->add(fd, kReadable, kFirstStream + i));
    }
    return Status::ok();
  }

  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& each) { return each.ended; });
  }

  void on_signals() {
    while (const auto signal = signals_.next()) {
      if (signal->number == SIGCHLD) {
        reap();
      } else if (!ending_) {
        // Report it before the ranks have ended, so that other hosts stop theirs at the same time.
        link_.send(
            AgentFailed{fmt::format("its agent was stopped by {}", signal_name(signal->number))});
        stop_ranks(kGrace);
      }
    }
  }

  // Reaps ranks and adopted orphans; one SIGCHLD may stand for several processes.
  void reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      const auto rank = std::find_if(ranks_.begin(), ranks_.end(),
                                     [&](const Rank& each) { return each.pid == pid; });
      if (rank == ranks_.end() || rank->ended) continue;  // an adopted orphan
      rank->ended = true;
      link_.send(RankExited{rank->rank, status});
    }
    no_children_ = pid < 0 && errno == ECHILD;
  }

  // ---- Ending

  void stop_ranks(milliseconds grace) {
    ending_ = true;
    kill_from(Clock::now() + grace);
    if (grace.count() == 0) return;
    // All descendants get the signal, not only the process groups of the ranks, so that a process
    // that left its group can exit cleanly too.
    signal_all(descendants(), SIGTERM);
  }

  void kill_from(Clock::time_point when) { kill_at_ = std::min(kill_at_.value_or(when), when); }

  // Called when all ranks have ended and processes that they started still run.
  void stop_orphans() {
    if (orphans_signalled_) return;
    orphans_signalled_ = true;
    signal_all(descendants(), SIGTERM);
    kill_from(Clock::now() + kGraceForOrphans);
  }

  // Called every kKillInterval until no child is left.
  void kill_all(Clock::time_point now) {
    if (!killed_since_.has_value()) killed_since_ = now;
    const std::vector<pid_t> left = descendants();
    signal_all(left, SIGKILL);
    reap();
    kill_at_ = now + kKillInterval;
    if (now < *killed_since_ + kKillTimeout || no_children_) return;
    // A process in an uninterruptible wait cannot be killed: report it and exit without it.
    link_.send(AgentWarning{fmt::format("cannot kill process {}", fmt::join(left, ", "))});
    no_children_ = true;
  }

  void on_time() {
    const auto now = Clock::now();
    if (started_ && all_ended() && !no_children_) {
      reap();
      if (!no_children_) stop_orphans();
    }
    if (kill_at_.has_value() && now >= *kill_at_ && !no_children_) kill_all(now);
    if (watch_ && now >= next_alive_at_) {
      link_.send(Alive{});
      next_alive_at_ = now + kAliveEvery;
    }
    if (watch_ && !suspended_ && !launcher_lost_ && now >= heard_ + kSilenceTimeout) {
      on_launcher_lost(kGraceAfterSilence);
    }
    if (nothing_runs()) drain(now);
  }

  // Whether no process of the job is left on this host, or none was started and none will be.
  bool nothing_runs() const { return (started_ && all_ended() && no_children_) || no_ranks(); }
  bool no_ranks() const { return ranks_.empty() && ending_; }

  // Called when all ranks have ended. Forwards the output that is left in the pipes, then sends
  // AgentDone.
  void drain(Clock::time_point now) {
    if (stopped_by_launcher_ && !drain_by_.has_value()) drain_by_ = now + kDrainTimeout;
    if (drain_by_.has_value() && now >= *drain_by_) discard_ = true;
    for (Stream& stream : streams_) {
      while (stream.fd.valid() && may_read()) {
        // The pipe is empty. A process outside the job may still hold the write end (a daemon that
        // was handed the descriptor); the stream ends without it.
        if (!forward_output(stream)) end_stream(stream);
      }
    }
    const bool drained = std::none_of(streams_.begin(), streams_.end(),
                                      [](const Stream& each) { return each.fd.valid(); });
    if (drained && !done_) {
      done_ = true;
      link_.send(AgentDone{});
    }
  }

  bool over() { return done_ && (launcher_lost_ || !link_.wants_write()); }

  Deadline next_deadline() const {
    Deadline next = Deadline::never();
    const auto consider = [&](Clock::time_point when) { next = earlier(next, Deadline::at(when)); };
    if (kill_at_.has_value() && !no_children_) consider(*kill_at_);
    if (watch_) consider(next_alive_at_);
    if (watch_ && !suspended_ && !launcher_lost_) consider(heard_ + kSilenceTimeout);
    if (drain_by_.has_value() && !discard_) consider(*drain_by_);
    return next;
  }

  // ---- Output

  bool may_read() const { return credit_ > 0 || launcher_lost_ || discard_; }

  // Returns false when the pipe is empty at present.
  bool forward_output(Stream& stream) {
    if (!may_read()) return true;
    std::array<char, kReadSize> buffer;
    const bool drop = launcher_lost_ || discard_;
    const size_t most = drop ? buffer.size() : std::min<size_t>(buffer.size(), credit_);
    const ssize_t count = ::read(stream.fd.get(), buffer.data(), most);
    if (count < 0) return errno == EINTR;
    if (count == 0) return end_stream(stream), true;
    if (drop) return true;
    link_.send(RankOutput{stream.rank, stream.which, {buffer.data(), static_cast<size_t>(count)}});
    credit_ -= static_cast<uint64_t>(count);
    if (credit_ == 0) pause_streams();
    return true;
  }

  void end_stream(Stream& stream) {
    if (!paused_) poller_->remove(stream.fd.get());
    stream.fd.reset();
    link_.send(RankOutput{stream.rank, stream.which, {}});
  }

  void grant(uint64_t bytes) {
    credit_ += bytes;
    resume_streams();
  }

  // Without credit the agent does not read, the pipes fill up, and the ranks block in write() as
  // they would with a slow terminal. So memory stays bounded by kOutputWindow.
  void pause_streams() {
    paused_ = true;
    for (const Stream& stream : streams_) {
      if (stream.fd.valid()) poller_->remove(stream.fd.get());
    }
  }

  void resume_streams() {
    if (!paused_) return;
    paused_ = false;
    for (size_t i = 0; i < streams_.size(); ++i) {
      const int fd = streams_[i].fd.get();
      if (fd >= 0) (void)poller_->add(fd, kReadable, kFirstStream + i);
    }
  }

  const bool watch_;
  Signals signals_;
  const std::unique_ptr<Poller> poller_;
  Link link_;
  HostProbe probe_;
  std::vector<Rank> ranks_;
  std::vector<Stream> streams_;
  uint64_t credit_ = kOutputWindow;

  bool started_ = false;
  bool suspended_ = false;
  bool launcher_lost_ = false;
  bool stopped_by_launcher_ = false;
  bool ending_ = false;  // stop_ranks() was called
  bool orphans_signalled_ = false;
  bool no_children_ = false;  // waitpid reported ECHILD, or the rest cannot be killed
  bool discard_ = false;      // the output of a stopped job, after kDrainTimeout
  bool done_ = false;
  bool paused_ = false;
  bool polled_for_output_ = false;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Clock::time_point> killed_since_;
  std::optional<Clock::time_point> drain_by_;
  Clock::time_point heard_ = Clock::now();
  Clock::time_point next_alive_at_ = Clock::now();
};

int supervise_ranks(bool remote) {
  // A group of its own: one signal to a process group must not kill the agent and its guardian.
  ::setpgid(0, 0);
  raise_descriptor_limit();
  auto signals = Signals::block({SIGCHLD, SIGTERM, SIGINT, SIGHUP});
  auto poller = Poller::create();
  Status status = signals.is_ok() ? poller.status() : signals.status();
  if (status.is_ok()) status = Agent(remote, std::move(*signals), std::move(*poller)).run();
  return status.is_ok() ? 0 : print_error(status.message(), kFailure);
}

}  // namespace

int run_agent(bool remote) {
  return run_guarded([remote] { return supervise_ranks(remote); });
}

}  // namespace hvd::launcher
