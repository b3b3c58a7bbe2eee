// SPDX-License-Identifier: Apache-2.0
#include "launcher/run.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <sstream>

#include "base/config.h"
#include "launcher/agent_link.h"
#include "launcher/messages.h"
#include "launcher/printer.h"
#include "launcher/remote.h"
#include "launcher/rendezvous_service.h"
#include "launcher/report.h"
#include "launcher/signals.h"
#include "launcher/supervision.h"
#include "net/address.h"
#include "net/secret.h"

namespace hvd::launcher {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Time for ssh to exit after its agent has exited.
constexpr milliseconds kReapTimeout{1'000};
// Time for a process to exit after its connection has ended. Its exit status explains the end.
constexpr milliseconds kAgentExitTimeout{1'000};
// Time for queued output to be written after an interrupted job, if the terminal or pipe does not
// accept it.
constexpr milliseconds kPrintTimeout{2'000};
// Credit is returned in units of this size, which saves messages.
constexpr uint64_t kCreditUnit = kOutputWindow / 4;

// Tokens of the poller: host i has kFirstHostToken + i * kTokensPerHost and the next two
// (AgentLink).
constexpr uint64_t kSignalToken = 0;
constexpr uint64_t kFirstHostToken = 4;
constexpr uint64_t kTokensPerHost = 4;

// The hosts in the order of their first rank.
std::vector<HostPlan> hosts_of(const Launch& launch) {
  std::vector<HostPlan> hosts;
  for (const Slot& slot : launch.slots) {
    if (hosts.empty() || hosts.back().name != slot.host) {
      hosts.push_back({slot.host, !is_local(slot.host), {}});
    }
    hosts.back().ranks.push_back(slot.rank);
  }
  return hosts;
}

// Checks settings that ranks on this machine would reject, before any rank is started. Other hosts
// have other interfaces and files, so their ranks check for themselves.
Status check_here(const Launch& launch, const std::vector<HostPlan>& hosts) {
  HVD_TRY_ASSIGN(const Config config, Config::from([&](const char* variable) -> const char* {
                   const auto found = launch.environment.find(variable);
                   return found == launch.environment.end() ? nullptr : found->second.c_str();
                 }));
  const auto here = [](const HostPlan& host) { return !host.remote; };
  if (std::any_of(hosts.begin(), hosts.end(), here) && launch.interfaces.empty() &&
      launch.slots.size() > 1) {
    const auto found = local_interfaces(config.network_interfaces);
    if (!found.is_ok()) return found.status().with_context("HOROVOD_NETWORK_INTERFACES");
  }
  const bool writes_here = config.timeline_all_ranks ? std::any_of(hosts.begin(), hosts.end(), here)
                                                     : !hosts.empty() && here(hosts.front());
  return writes_here ? config.check_timeline(launch.directory) : Status::ok();
}

Timeouts timeouts_of(const Launch& launch) {
  Timeouts timeouts;
  timeouts.start = launch.start_timeout;
  return timeouts;
}

// The event loop of the launcher for one job. Everything here runs on one thread. `launch` must
// outlive it. A size_t `i` or `host` is an index in Supervision::hosts(); an AgentState& `host` is
// the agent of that host.
class JobRunner {
 public:
  JobRunner(const Launch& launch, std::vector<HostPlan> hosts, Signals signals,
            std::shared_ptr<Poller> poller, std::unique_ptr<Printer> printer)
      : launch_(launch),
        secret_(Secret::generate()),
        signals_(std::move(signals)),
        poller_(std::move(poller)),
        printer_(std::move(printer)),
        supervision_(std::move(hosts), timeouts_of(launch), Clock::now()),
        hosts_(supervision_.hosts().size()) {}

  Status run() {
    HVD_TRY(poller_->add(signals_.fd(), kReadable, kSignalToken));
    for (size_t i = 0; i < hosts_.size(); ++i) start_agent(i);
    HVD_TRY_ASSIGN(rendezvous_,
                   start_rendezvous(secret_, one_host(), launch_.interfaces, launch_.tls));
    std::vector<PollEvent> events;
    execute_decisions();
    while (!supervision_.finished()) {
      HVD_TRY(poller_->wait(events, next_deadline()));
      for (const PollEvent& event : events) on_event(event);
      on_time();
      execute_decisions();
    }
    return finish();
  }

  int exit_code() const { return supervision_.exit_code(); }

 private:
  struct AgentState {
    std::unique_ptr<AgentLink> link;
    bool ready = false;
    bool ended = false;                        // AgentDone has arrived
    uint64_t credit = 0;                       // bytes printed and not yet granted again
    std::optional<Clock::time_point> exit_by;  // set when the connection ended before the process
  };

  const HostPlan& plan(size_t host) const { return supervision_.hosts()[host]; }
  bool one_host() const {
    const auto& hosts = supervision_.hosts();
    return std::none_of(hosts.begin(), hosts.end(),
                        [](const HostPlan& each) { return each.remote; });
  }

  // ---- Agents

  // If the agent cannot be started, the supervision gets host_failed(), as for any other host that
  // cannot be used.
  void start_agent(size_t i) {
    SpawnOptions options =
        agent_on(plan(i).name, plan(i).remote, launch_.shell, launch_.start_timeout);
    const std::string name = options.command.front();
    auto link =
        AgentLink::start(std::move(options), *poller_, kFirstHostToken + i * kTokensPerHost);
    if (link.is_ok()) {
      hosts_[i].link = std::move(*link);
      return;
    }
    std::string why = link.status().message();
    if (link.status().code() == StatusCode::kNotFound) {
      why = plan(i).remote
                ? fmt::format("\"{}\" is not installed on this machine", name)
                : "horovodrun starts itself by /proc/self/exe, which does not exist: mount "
                  "/proc (mount -t proc proc /proc)";
    }
    supervision_.host_failed(i, why, Clock::now());
  }

  // Sent when every host is ready. The secret is part of it.
  StartRanks start_message(size_t host) const {
    StartRanks start;
    for (const int rank : plan(host).ranks) {
      start.slots.push_back(launch_.slots[static_cast<size_t>(rank)]);
    }
    start.command = launch_.command;
    for (const auto& [name, value] : launch_.environment) {
      start.environment.push_back(fmt::format("{}={}", name, value));
    }
    start.directory = launch_.directory;
    start.secret = SecretText(secret_.to_base64());
    start.rendezvous = rendezvous_.addresses;
    start.interfaces = launch_.interfaces;
    start.one_host = one_host();
    start.tls = launch_.tls;
    return start;
  }

  // ---- Events

  void on_event(const PollEvent& event) {
    if (event.token == kSignalToken) return on_signals();
    const size_t i = (event.token - kFirstHostToken) / kTokensPerHost;
    AgentState& host = hosts_[i];
    if (host.link == nullptr) return;
    switch (event.token % kTokensPerHost) {
      case 0: return (void)on_input(i);
      case 1: return host.link->flush();
      default: return print_errors(i);
    }
  }

  // Reads and handles messages. Returns false if nothing had arrived.
  bool on_input(size_t i) {
    AgentState& host = hosts_[i];
    if (!host.link->is_open()) return false;
    const bool heard = host.link->fill() > 0;
    supervision_.heard_from(i, Clock::now());
    while (const auto message = host.link->next()) on_message(i, *message);
    if (!host.link->is_open()) host.exit_by = Clock::now() + kAgentExitTimeout;
    return heard;
  }

  void on_message(size_t i, const Message& message) {
    const auto now = Clock::now();
    if (const auto* ready = std::get_if<AgentReady>(&message)) return on_ready(i, *ready);
    if (const auto* output = std::get_if<RankOutput>(&message)) return on_output(i, *output);
    if (const auto* started = std::get_if<RankStarted>(&message)) {
      if (is_on(i, started->rank)) supervision_.rank_started(started->rank, started->pid);
    }
    if (const auto* exited = std::get_if<RankExited>(&message)) {
      if (is_on(i, exited->rank)) supervision_.rank_exited(exited->rank, exited->status, now);
    }
    if (const auto* warning = std::get_if<AgentWarning>(&message)) {
      printer_->print_message(fmt::format("horovodrun: host {}: {}", plan(i).name, warning->text));
    }
    if (const auto* failed = std::get_if<AgentFailed>(&message)) {
      supervision_.host_failed(i, failed->text, now);
    }
    if (std::holds_alternative<AgentDone>(message)) {
      hosts_[i].ended = true;
      supervision_.host_done(i, now);
    }
  }

  // Rejects a rank that is not on the host, because the rank is used as an index.
  bool is_on(size_t i, int rank) const {
    const auto& ranks = plan(i).ranks;
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }

  // The format of messages has no version of its own, so both sides must have the same release.
  void on_ready(size_t i, const AgentReady& ready) {
    if (ready.version != HVD_VERSION) {
      return supervision_.host_failed(
          i,
          fmt::format("it has version {} of horovodrun, this one is {}: install the same there",
                      ready.version, HVD_VERSION),
          Clock::now());
    }
    print_errors(i);
    hosts_[i].ready = true;
    if (launch_.verbose) {
      printer_->print_message(
          fmt::format("horovodrun: host {} ({}) is ready", plan(i).name, ready.host_name));
    }
    std::istringstream lines(hosts_[i].link->diagnostics());
    for (std::string line; std::getline(lines, line);) {
      printer_->print_message(fmt::format("{}: {}", plan(i).name, line));
    }
    supervision_.host_ready(i, Clock::now());
  }

  void on_output(size_t i, const RankOutput& output) {
    if (!is_on(i, output.rank)) return;
    if (output.bytes.empty()) return printer_->end(output.rank, output.stream);
    printer_->add(output.rank, output.stream, output.bytes, i);
  }

  // Until a host is ready, the messages of ssh are only kept: explain_remote() may need them.
  void print_errors(size_t i) {
    for (const std::string& line : hosts_[i].link->take_error_lines()) {
      if (hosts_[i].ready) printer_->print_message(fmt::format("{}: {}", plan(i).name, line));
    }
  }

  // A signal that arrives during finish() ends the wait of finish().
  void on_signals() {
    while (const auto signal = signals_.next()) {
      if (signal->number == SIGCHLD) {
        reap();
      } else if (signal->number == SIGTSTP) {
        suspend();
      } else {
        supervision_.interrupted(signal->number, Clock::now());
        interrupted_ = true;
      }
    }
  }

  // Called on SIGCHLD. One signal may stand for several processes, so all of them are checked.
  void reap() {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      AgentState& host = hosts_[i];
      int status = 0;
      if (host.link == nullptr || host.link->status().has_value()) continue;
      if (::waitpid(host.link->pid(), &status, WNOHANG) != host.link->pid()) continue;
      host.link->reaped(status);
      // First handle the messages that the process wrote before it exited.
      while (on_input(i)) {
      }
      host.link->close();
      print_errors(i);
      on_agent_gone(i);
    }
  }

  // The process of the agent or its connection has ended. If the host was not ready yet, the
  // messages of ssh explain it. Otherwise the host is lost.
  void on_agent_gone(size_t i) {
    AgentState& host = hosts_[i];
    host.exit_by.reset();
    if (host.ended) return;
    const auto status = host.link->status();
    if (!host.ready && plan(i).remote && status.has_value()) {
      return supervision_.host_failed(
          i, explain_remote(launch_.shell, plan(i).name, *status, host.link->diagnostics()),
          Clock::now());
    }
    std::string why = "the connection to its agent has ended";
    if (status.has_value()) {
      why = fmt::format("{} that {} it has ended, {}",
                        plan(i).remote ? launch_.shell.program : "the agent",
                        plan(i).remote ? "leads to" : "watches", describe_exit(*status));
    }
    supervision_.host_gone(i, why, Clock::now());
  }

  // Ctrl-Z: a stopped launcher neither sends nor receives Alive. So neither side may measure
  // silence while the launcher is stopped.
  void suspend() {
    send_all(Suspend{true});
    ::raise(SIGSTOP);
    send_all(Suspend{false});
    supervision_.resumed(Clock::now());
  }

  void send_all(const Message& message) {
    for (AgentState& host : hosts_) {
      if (!host.ready) continue;
      host.link->send(message);
      host.link->flush_all(Deadline::after(milliseconds(500)));
    }
  }

  // ---- Time, and what follows

  Deadline next_deadline() const {
    Deadline next = supervision_.next_deadline();
    if (!one_host()) next = earlier(next, Deadline::at(next_alive_at_));
    for (const AgentState& host : hosts_) {
      if (host.exit_by.has_value()) next = earlier(next, Deadline::at(*host.exit_by));
    }
    return next;
  }

  void on_time() {
    const auto now = Clock::now();
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].exit_by.has_value() && now >= *hosts_[i].exit_by) on_agent_gone(i);
    }
    return_credit();
    if (const Status failure = printer_->failure(); !failure.is_ok()) {
      supervision_.output_failed(failure.message(), now);
    }
    supervision_.tick(now);
    if (one_host() || now < next_alive_at_) return;
    next_alive_at_ = now + kAliveEvery;
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].ready && plan(i).remote) hosts_[i].link->send(Alive{});
    }
  }

  // A host gets credit back for output that has been printed, so memory is bounded per host.
  void return_credit() {
    for (const Printer::Written& written : printer_->take_written()) {
      hosts_[written.owner].credit += written.bytes;
    }
    for (AgentState& host : hosts_) {
      if (host.credit < kCreditUnit) continue;
      host.link->send(GrantCredit{std::exchange(host.credit, 0)});
    }
  }

  void execute_decisions() {
    for (const Decision& decision : supervision_.take_decisions()) {
      AgentState& host = hosts_[decision.host];
      switch (decision.kind) {
        case Decision::Kind::kPrint: printer_->print_message(decision.text); break;
        case Decision::Kind::kStart: host.link->send(start_message(decision.host)); break;
        case Decision::Kind::kStop:
          host.link->send(StopRanks{static_cast<uint32_t>(decision.grace.count())});
          break;
        case Decision::Kind::kDrop: drop(decision.host); break;
      }
    }
  }

  void drop(size_t i) {
    AgentState& host = hosts_[i];
    if (host.link == nullptr) return;
    host.link->close();
    host.exit_by.reset();
    // A local agent exits when it loses the connection. ssh may wait for a host that is
    // unreachable, so it gets a signal.
    if (plan(i).remote && !host.ended) end_shell(host);
  }

  static void end_shell(const AgentState& host) {
    if (!host.link->status().has_value()) (void)::kill(host.link->pid(), SIGTERM);
  }

  // ---- The end

  // Called when all hosts have ended. Prints the failure report, waits until the output is written
  // and the ssh processes have exited, and then ends the ssh processes that are left.
  Status finish() {
    supervision_.tick(Clock::now());
    execute_decisions();
    if (const auto failed_rank = supervision_.failed_rank(); failed_rank.has_value()) {
      printer_->print_message(
          failure_report(supervision_, printer_->last_stderr_lines(*failed_rank)));
    }
    interrupted_ = false;
    const Deadline reap_by = Deadline::after(kReapTimeout);
    // If the terminal accepts no output (Ctrl-S), this waits without limit, until the user
    // interrupts it.
    const Deadline print_by =
        supervision_.was_interrupted() ? Deadline::after(kPrintTimeout) : Deadline::never();
    std::vector<PollEvent> events;
    while (!interrupted_ && !print_by.expired() &&
           !(printer_->idle() && (all_reaped() || reap_by.expired()))) {
      const bool waits = !all_reaped() && !reap_by.expired();
      HVD_TRY(poller_->wait(events, waits ? earlier(reap_by, print_by) : print_by));
      for (const PollEvent& event : events) on_event(event);
    }
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (plan(i).remote && hosts_[i].link != nullptr) end_shell(hosts_[i]);
    }
    return Status::ok();
  }

  // Only agents that reported their end are waited for.
  bool all_reaped() const {
    return std::all_of(hosts_.begin(), hosts_.end(), [](const AgentState& host) {
      return host.link == nullptr || !host.ended || host.link->status().has_value();
    });
  }

  const Launch& launch_;
  const Secret secret_;
  Signals signals_;
  const std::shared_ptr<Poller> poller_;
  const std::unique_ptr<Printer> printer_;
  Supervision supervision_;
  std::vector<AgentState> hosts_;
  RendezvousService rendezvous_;
  Clock::time_point next_alive_at_ = Clock::now();
  bool interrupted_ = false;  // a signal has arrived; also ends the waiting in finish()
};

Result<int> try_run(const Launch& launch) {
  // hosts_of() asks the name service, which may be slow. It runs before signals are blocked, so
  // that the user can interrupt it.
  std::vector<HostPlan> hosts = hosts_of(launch);
  if (const Status wrong = check_here(launch, hosts); !wrong.is_ok()) {
    return print_error(wrong.message(), kUsageError);
  }
  raise_descriptor_limit();
  HVD_TRY_ASSIGN(Signals signals, Signals::block({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGTSTP}));
  HVD_TRY_ASSIGN(std::unique_ptr<Poller> poller_made, Poller::create());
  const std::shared_ptr<Poller> poller = std::move(poller_made);
  auto printer = Printer::start(launch.output, static_cast<int>(launch.slots.size()),
                                [poller] { poller->wake(); });
  if (!printer.is_ok()) return print_error(printer.status().message(), kUsageError);
  JobRunner runner(launch, std::move(hosts), std::move(signals), poller, std::move(*printer));
  HVD_TRY(runner.run());
  return runner.exit_code();
}

}  // namespace

int run(const Launch& launch) {
  const Result<int> code = try_run(launch);
  return code.is_ok() ? *code : print_error(code.status().message(), kFailure);
}

}  // namespace hvd::launcher
