// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/deadline.h"
#include "launcher/messages.h"
#include "launcher/processes.h"

namespace hvd::launcher {
namespace {

// SIGKILL takes effect at once, except for a process in an uninterruptible wait. It is repeated
// because a process may fork between the walk of the process tree and the signal.
constexpr std::chrono::seconds kGuardianKillTimeout{3};
constexpr timespec kGuardianKillInterval{.tv_sec = 0, .tv_nsec = 20'000'000};

// Returns the status of waitpid.
int wait_for_inner(pid_t inner, const sigset_t& signals) {
  while (true) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&signals, &info);
    // The terminal sends its signals to the whole foreground group, so the inner process has them
    // too.
    const bool by_terminal = info.si_code == SI_KERNEL;
    if (signal > 0 && signal != SIGCHLD && !by_terminal) (void)::kill(inner, signal);
    int status = 0;
    if (::waitpid(inner, &status, WNOHANG) == inner) return status;
  }
}

// Kills the descendants that the inner process left, now children of this process.
void kill_descendants(const sigset_t& signals) {
  const Deadline deadline = Deadline::after(kGuardianKillTimeout);
  while (!deadline.expired()) {
    signal_all(descendants(), SIGKILL);
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0) return;  // ECHILD: none is left
    (void)::sigtimedwait(&signals, nullptr, &kGuardianKillInterval);
  }
}

int exit_like(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);  // the inner process has already dumped core
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

}  // namespace

int run_guarded(FunctionRef<int()> work) {
  if (const Status status = become_subreaper(); !status.is_ok()) {
    return print_error(status.message(), kFailure);
  }
  sigset_t signals;
  sigset_t before;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  // Blocked before the fork: a signal between fork and sigwaitinfo() must not kill the guardian
  // alone.
  const pid_t outer = ::getpid();
  const pid_t inner = ::fork();
  if (inner < 0) return print_error(io_error("fork", errno).message(), kFailure);
  if (inner == 0) {
    // The outer process may have died before prctl() took effect; hence the check of getppid().
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return ::getppid() == outer ? work() : 1;
  }
  const int status = wait_for_inner(inner, signals);
  kill_descendants(signals);
  return exit_like(status);
}

}  // namespace hvd::launcher
