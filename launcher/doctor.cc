// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>

#include "base/function_ref.h"
#include "launcher/agent_link.h"
#include "launcher/host_probe.h"
#include "launcher/messages.h"
#include "launcher/remote.h"
#include "launcher/signals.h"
#include "net/poller.h"
#include "net/secret.h"
#include "net/socket.h"

namespace hvd::launcher {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kTokensPerHost = 4;
// For a reachable host to probe itself or to measure one path. A probe runs Python, up to 5 s.
constexpr seconds kAnswerTimeout{12};

// Reaps a process whose connection has ended; SIGTERM after one second. Returns waitpid's status.
int reap_agent(pid_t pid) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!wait_for(process.get(), POLLIN, Deadline::after(seconds(1))).is_ok()) {
    (void)::kill(pid, SIGTERM);
  }
  int status = 0;
  (void)::waitpid(pid, &status, 0);
  return status;
}

// Starts an agent per host, lets all hosts probe themselves at the same time, then measures the
// paths one after the other, because simultaneous measurements would share the network.
class DoctorRunner {
 public:
  DoctorRunner(const Doctor& doctor, std::unique_ptr<Poller> poller)
      : doctor_(doctor),
        secret_(SecretText(Secret::generate().to_base64())),
        poller_(std::move(poller)),
        links_(doctor.hosts.size()) {
    for (const HostSlots& host : doctor.hosts) {
      records_.push_back({.name = host.name, .slots = host.slots, .remote = !is_local(host.name)});
    }
  }

  // Fails only if polling does. A host that cannot be checked becomes a problem of the verdict.
  Result<Verdict> run() {
    for (size_t i = 0; i < links_.size(); ++i) start(i);
    const auto known = [this] {
      return std::all_of(records_.begin(), records_.end(), [](const HostRecord& each) {
        return each.findings.has_value() || !each.trouble.empty();
      });
    };
    HVD_TRY(serve_agents(Deadline::after(doctor_.start_timeout + kAnswerTimeout), known));
    for (HostRecord& each : records_) {
      if (!each.findings.has_value() && each.trouble.empty()) each.trouble = "no answer in time";
    }
    HVD_TRY(measure_paths());
    return make_verdict(records_, paths_);
  }

 private:
  // Starts the agent of host i.
  void start(size_t i) {
    HostRecord& record = records_[i];
    auto link =
        AgentLink::start(agent_on(record.name, record.remote, doctor_.shell, doctor_.start_timeout),
                         *poller_, i * kTokensPerHost);
    if (link.is_ok()) {
      links_[i] = std::move(*link);
    } else {
      record.trouble = link.status().message();
    }
  }

  // Handles messages until `done` returns true or the deadline expires. Sends Alive to every agent:
  // an agent that receives nothing for 7 s exits.
  Status serve_agents(Deadline deadline, FunctionRef<bool()> done) {
    std::vector<PollEvent> events;
    while (!done() && !deadline.expired()) {
      HVD_TRY(poller_->wait(events, earlier(deadline, Deadline::at(next_alive_at_))));
      for (const PollEvent& event : events) on_event(event);
      if (Clock::now() < next_alive_at_) continue;
      next_alive_at_ = Clock::now() + kAliveEvery;
      for (size_t i = 0; i < links_.size(); ++i) {
        if (!records_[i].version.empty()) links_[i]->send(Alive{});
      }
    }
    return Status::ok();
  }

  void on_event(const PollEvent& event) {
    const size_t i = event.token / kTokensPerHost;
    AgentLink& link = *links_[i];
    if (event.token % kTokensPerHost == 1) return link.flush();
    // Keep the messages of ssh: explain_remote() needs them.
    if (event.token % kTokensPerHost == 2) return (void)link.take_error_lines();
    (void)link.fill();
    while (const auto message = link.next()) on_message(i, *message);
    if (!link.is_open()) on_agent_lost(i);
  }

  void on_message(size_t i, const Message& message) {
    HostRecord& record = records_[i];
    if (const auto* ready = std::get_if<AgentReady>(&message)) {
      record.version = ready->version;
      if (ready->version == HVD_VERSION) {
        links_[i]->send(ProbeHost{secret_, doctor_.interfaces, doctor_.tls});
      } else {
        record.trouble = fmt::format("it has version {} of horovodrun, this one is {}",
                                     ready->version, HVD_VERSION);
      }
    }
    if (const auto* findings = std::get_if<Findings>(&message)) {
      record.findings = *findings;
      record.clock_ahead_us = findings->clock_us - wall_clock_us();
    }
    if (const auto* measured = std::get_if<Measurement>(&message)) measured_ = *measured;
  }

  // Without a version the agent never started, and ssh explains why.
  void on_agent_lost(size_t i) {
    const int status = reap_agent(links_[i]->pid());
    (void)links_[i]->take_error_lines();
    HostRecord& record = records_[i];
    if (!record.trouble.empty()) return;
    record.trouble =
        record.version.empty() && record.remote
            ? explain_remote(doctor_.shell, record.name, status, links_[i]->diagnostics())
            : "the connection to its agent has ended";
    record.findings.reset();
  }

  // Measures a ring: each host to the next and the last to the first. Two hosts have one path.
  Status measure_paths() {
    std::vector<size_t> well;
    for (size_t i = 0; i < records_.size(); ++i) {
      if (records_[i].findings.has_value()) well.push_back(i);
    }
    const size_t count = well.size() > 2 ? well.size() : well.size() - (well.empty() ? 0 : 1);
    for (size_t k = 0; k < count; ++k) {
      const size_t from = well[k];
      const size_t to = well[(k + 1) % well.size()];
      measured_.reset();
      links_[from]->send(MeasurePeer{records_[to].findings->rendezvous});
      HVD_TRY(serve_agents(Deadline::after(kAnswerTimeout),
                           [&] { return measured_.has_value() || !links_[from]->is_open(); }));
      paths_.push_back({from, to, measured_.value_or(Measurement{.problem = "no answer in time"})});
    }
    return Status::ok();
  }

  const Doctor& doctor_;
  const SecretText secret_;
  const std::unique_ptr<Poller> poller_;
  std::vector<std::unique_ptr<AgentLink>> links_;
  std::vector<HostRecord> records_;
  std::vector<PathRecord> paths_;
  std::optional<Measurement> measured_;  // the answer to the current MeasurePeer
  Clock::time_point next_alive_at_ = Clock::now();
};

Result<Verdict> diagnose(const Doctor& doctor) {
  HVD_TRY(Signals::block({}).status());  // ignores SIGPIPE: writing to an agent that exited fails
  HVD_TRY_ASSIGN(std::unique_ptr<Poller> poller, Poller::create());
  return DoctorRunner(doctor, std::move(poller)).run();
}

}  // namespace

int run_doctor(const Doctor& doctor) {
  const int shown =
      print_output(fmt::format("horovodrun {} checks {} host(s); this takes some seconds.\n",
                               HVD_VERSION, doctor.hosts.size()));
  if (shown != 0) return shown;
  const auto verdict = diagnose(doctor);
  if (!verdict.is_ok()) return print_error(verdict.status().message(), kFailure);
  if (const int code = print_output(verdict->text); code != 0) return code;
  return verdict->problems == 0 ? 0 : kFailure;
}

}  // namespace hvd::launcher
