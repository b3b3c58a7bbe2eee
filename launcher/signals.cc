// SPDX-License-Identifier: Apache-2.0
#include "launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace hvd::launcher {

Result<Signals> Signals::block(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    // Do not block an ignored signal (SIGHUP under nohup): signalfd would deliver it.
    if (before.sa_handler != SIG_IGN) ::sigaddset(&set, signal);
  }
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return io_error("sigprocmask", errno);
  // Writing to a closed pipe then fails with EPIPE instead of ending the process.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
  Fd fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd.valid()) return io_error("signalfd", errno);
  return Signals(std::move(fd));
}

std::optional<Signal> Signals::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return Signal{static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

}  // namespace hvd::launcher
