// SPDX-License-Identifier: Apache-2.0
// One rank of a job as a process of its own, for tests that need processes or hosts.
//
//   hvd_rank <task> <rank> …       see rank_arguments.h
//   hvd_rank store <ip:port>       runs the rendezvous server until its standard input ends
//
// It writes one line per event to standard output. Times are of the monotonic clock, in
// microseconds, and comparable between processes of a machine.
//
//   exchange   sends 4 KiB along the powers of two and checks it:  ok <time>
//   stream     sends 64 MiB around the ring and checks them:       ok <duration in microseconds>
//   wait       waits for a message that never comes:               ready, then a failure
//   heavy      the same, with 1 GiB of memory for the kernel to
//              free:                                               ready, then a failure
//   meet       waits for all ranks of the host in the arena:       ready, then a failure
//   control    adds all ranks up along the control tree, then
//              exchanges:                                          ok <time>
//   idle       sleeps as an idle engine does:                      ready, then a failure
//   fork       exchanges after a forked child has ended:           ok <time>
//   orphan     waits, having forked a child that stays; kills
//              itself after 100 ms:                                ready, then killed <time>
//   leave      joins and leaves:                                   ok <time>
//
// These stop in the middle of join() or make_mesh(), where the test kills them:
//
//   absent     has entered the group, but has not published its record:   ready
//   joined     has joined, but does not make the mesh:                    ready
//   attached   has mapped the memory of the host, but holds no lifeline:  ready
//
// A failure, of any task, is: <code> <lost rank> <time> <text>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "net/rendezvous.h"
#include "net/secret.h"
#include "transport/fabric.h"
#include "transport/shm/arena.h"
#include "transport/testing/rank_arguments.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             Deadline::Clock::now().time_since_epoch())
      .count();
}

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  std::cout << fmt::format(format, std::forward<Args>(args)...) << std::endl;
}

Deadline limit() { return Deadline::after(60s); }

std::vector<uint32_t> pattern(size_t count, int seed) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), 1'000'003u * static_cast<uint32_t>(seed + 1));
  return values;
}

// Sends the pattern of this rank to `to`, and checks the pattern of `from`.
Status swap(Transport& transport, int to, int from, size_t bytes) {
  const auto out = pattern(bytes / 4, transport.rank());
  std::vector<uint32_t> in(bytes / 4);
  HVD_TRY(transport.exchange(to, std::as_bytes(std::span(out)), from,
                             std::as_writable_bytes(std::span(in)), limit()));
  if (in != pattern(bytes / 4, from)) {
    return internal_error(fmt::format("rank {} sent something else", from));
  }
  return Status::ok();
}

Status exchange(Transport& transport) {
  const int n = transport.size();
  for (int step = 1; step < n; step *= 2) {
    HVD_TRY(
        swap(transport, (transport.rank() + step) % n, (transport.rank() + n - step) % n, 4096));
  }
  say("ok {}", now_us());
  return Status::ok();
}

Status stream(Transport& transport) {
  constexpr size_t kBytes = 64 << 20;
  const int n = transport.size();
  const int right = (transport.rank() + 1) % n;
  const int left = (transport.rank() + n - 1) % n;
  HVD_TRY(swap(transport, right, left, 4096));  // opens the links
  const auto out = pattern(kBytes / 4, transport.rank());
  std::vector<uint32_t> in(kBytes / 4);
  const int64_t start = now_us();
  HVD_TRY(transport.exchange(right, std::as_bytes(std::span(out)), left,
                             std::as_writable_bytes(std::span(in)), limit()));
  const int64_t took = now_us() - start;
  if (in != pattern(kBytes / 4, left)) return internal_error("wrong bytes");
  // So that no rank leaves before its neighbour has received everything.
  HVD_TRY(swap(transport, left, right, 4));
  say("ok {}", took);
  return Status::ok();
}

Status wait(Transport& transport) {
  std::byte byte{};
  say("ready");
  return transport.recv((transport.rank() + 1) % transport.size(), {&byte, 1}, limit());
}

Status wait_heavily(Transport& transport) {
  const std::vector<std::byte> memory(size_t{1} << 30, std::byte{1});
  return wait(transport);
}

Status meet(Transport& transport) {
  if (transport.arena() == nullptr) return precondition("no arena");
  const uint64_t turn = transport.arena()->begin_turns(1);
  say("ready");
  return transport.arena()->wait_all(ArenaStage::kFilled, turn, limit());
}

// Sleeps until one more message has arrived. Only urgent messages wake an idle engine.
Status next_message(ControlPlane& control, Doorbell::Listener listener, ControlPlane::Take take) {
  while (true) {
    control.doorbell().listen(listener);
    control.arm();
    HVD_TRY_ASSIGN(const int count, control.receive(take));
    if (count > 0) return Status::ok();
    control.doorbell().sleep(listener, 60s);
    HVD_TRY(control.check());
  }
}

Status add_up(Transport& transport, ControlPlane& control) {
  int sum = transport.rank();
  size_t received = 0;
  const auto add = [&](int, ConstBytes message) {
    ++received;
    sum += std::stoi(std::string(text_of(message)));
    return Status::ok();
  };
  while (received < control.tree().children.size()) {
    HVD_TRY(next_message(control, Doorbell::Listener::kEngineThread, add));
  }
  if (control.tree().parent >= 0) {
    HVD_TRY(control.send(control.tree().parent, bytes_of(std::to_string(sum)), Urgency::kUsual));
    sum = 0;
    HVD_TRY(next_message(control, Doorbell::Listener::kEngineThread, add));
  }
  for (const int child : control.tree().children) {
    HVD_TRY(control.send(child, bytes_of(std::to_string(sum)), Urgency::kUsual));
  }
  if (sum != transport.size() * (transport.size() - 1) / 2) return internal_error("a wrong sum");
  return exchange(transport);  // so that no rank leaves before all are done
}

Status be_idle(ControlPlane& control) {
  say("ready");
  return next_message(control, Doorbell::Listener::kIdleEngineThread,
                      [](int, ConstBytes) { return Status::ok(); });
}

Status exchange_after_child(Transport& transport) {
  const pid_t child = ::fork();
  if (child == 0) return Status::ok();  // the child runs every destructor
  int status = -1;
  if (::waitpid(child, &status, 0) != child || status != 0) {
    return internal_error("the child did not end well");
  }
  return exchange(transport);
}

[[noreturn]] void orphan() {
  if (::fork() == 0) {
    ::close(STDOUT_FILENO);
    while (true) ::pause();
  }
  say("ready");
  std::this_thread::sleep_for(100ms);
  say("killed {}", now_us());
  (void)::raise(SIGKILL);
  std::abort();
}

[[noreturn]] void stay() {
  say("ready");
  while (true) ::pause();
}

Status serve_store(const std::string& where) {
  HVD_TRY_ASSIGN(const Secret secret, testing::job_secret());
  RendezvousServerOptions options;
  HVD_TRY_ASSIGN(options.bind, Endpoint::parse(where));
  HVD_TRY_ASSIGN(const auto rendezvous, RendezvousServer::start(secret, options));
  say("ready");
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return Status::ok();
}

Status run_rank(const std::vector<std::string>& args) {
  const Deadline deadline = limit();
  HVD_TRY_ASSIGN(const auto place, testing::RankArguments::take(args, deadline));
  const auto& [options, secret, rendezvous] = place;
  if (args[1] == "absent") {
    HVD_TRY(rendezvous->enter_group(options.round, options.rank));
    stay();
  }
  HVD_TRY_ASSIGN(const auto fabric, Fabric::join(options, secret, rendezvous.get(), deadline));
  if (args[1] == "joined") stay();
  if (args[1] == "attached") {
    HVD_TRY(rendezvous->set(fmt::format("{}/shm/0/0/{}", options.round, options.rank), "ok "));
    stay();
  }
  std::vector<int> all(options.size);
  std::iota(all.begin(), all.end(), 0);
  HVD_TRY_ASSIGN(const auto transport, fabric->make_mesh(0, all, deadline));
  if (args[1] == "control" || args[1] == "idle") {
    HVD_TRY_ASSIGN(const auto control, fabric->make_control(0, *transport, deadline));
    return args[1] == "idle" ? be_idle(*control) : add_up(*transport, *control);
  }
  if (args[1] == "exchange") return exchange(*transport);
  if (args[1] == "stream") return stream(*transport);
  if (args[1] == "wait") return wait(*transport);
  if (args[1] == "fork") return exchange_after_child(*transport);
  if (args[1] == "orphan") orphan();
  if (args[1] == "heavy") return wait_heavily(*transport);
  if (args[1] == "meet") return meet(*transport);
  if (args[1] != "leave") return invalid_argument("no such task: " + args[1]);
  say("ok {}", now_us());
  return Status::ok();
}

}  // namespace
}  // namespace hvd

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  const bool rendezvous = argc == 3 && args[1] == "store";
  if (argc != 7 && !rendezvous) {
    std::cerr << "usage: hvd_rank task rank size host interface store\n";
    return 2;
  }
  const pid_t started_as = getpid();
  const hvd::Status outcome = rendezvous ? hvd::serve_store(args[2]) : hvd::run_rank(args);
  // A forked child has run all destructors by now. Memory that other threads of its parent had
  // allocated is not a leak of the child, so it ends before the leak sanitizer checks.
  if (getpid() != started_as) _exit(outcome.is_ok() ? 0 : 1);
  if (outcome.is_ok()) return 0;
  hvd::say("{} {} {} {}", to_string(outcome.code()), outcome.lost_rank(), hvd::now_us(),
           outcome.message());
  return 1;
}
