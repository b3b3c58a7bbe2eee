// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "launcher/guardian.h"
#include "launcher/messages.h"
#include "launcher/processes.h"
#include "launcher/remote.h"
#include "launcher/rendezvous_service.h"
#include "launcher/report.h"
#include "launcher/signals.h"
#include "net/secret.h"

namespace hvd::launcher {
namespace {

// See try_run(): the variable that mpirun may lose.
constexpr char kLastVariable[] = "_HOROVOD_LAST_VARIABLE";

// A file that only its owner can read; the destructor deletes it.
class TemporaryFile {
 public:
  static Result<TemporaryFile> write(const std::string& text) {
    const char* folder = std::getenv("TMPDIR");
    std::string path = fmt::format("{}/horovodrun-XXXXXX", folder != nullptr ? folder : "/tmp");
    const Fd file(::mkostemp(path.data(), O_CLOEXEC));
    if (!file.valid()) return io_error(path, errno);
    TemporaryFile result(path);
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return io_error(path, errno);
    }
    return result;
  }
  TemporaryFile() = default;
  TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFile& operator=(TemporaryFile&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~TemporaryFile() {
    if (!path_.empty()) (void)::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Forwards signals until the program has ended. Returns its exit code, or 128 + signal.
int wait_for(pid_t pid, Signals& signals) {
  while (true) {
    pollfd wait{signals.fd(), POLLIN, 0};
    (void)::poll(&wait, 1, -1);
    while (const auto signal = signals.next()) {
      // The terminal sends its signals to the program as well: do not send them twice.
      if (signal->number != SIGCHLD && !signal->by_terminal) (void)::kill(pid, signal->number);
    }
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) return exit_code_of(status);
  }
}

Result<int> try_run(const ProgramLaunch& launch) {
  const bool one_host = std::all_of(launch.hosts.begin(), launch.hosts.end(),
                                    [](const HostSlots& host) { return is_local(host.name); });
  // Before the rendezvous server starts its thread, which inherits the mask.
  HVD_TRY_ASSIGN(Signals signals, Signals::block({SIGCHLD, SIGINT, SIGTERM, SIGHUP}));
  const Secret secret = Secret::generate();
  HVD_TRY_ASSIGN(const RendezvousService rendezvous,
                 start_rendezvous(secret, one_host, launch.interfaces, launch.tls));
  std::vector<std::string> arguments = launch.arguments;
  TemporaryFile file;
  if (launch.file.has_value()) {
    HVD_TRY_ASSIGN(file, TemporaryFile::write(launch.file->text));
    arguments[launch.file->argument] = file.path();
  }
  for (const auto& [name, value] : launch.environment) ::setenv(name.c_str(), value.c_str(), 1);
  // All addresses: the ranks of each host find out which of them they can reach.
  const std::string where = fmt::format("{}", fmt::join(rendezvous.addresses, ","));
  ::setenv("HOROVOD_RENDEZVOUS", where.c_str(), 1);
  ::setenv("_HOROVOD_SECRET_KEY", secret.to_base64().c_str(), 1);
  // mpirun of MPICH 4.0 drops the last variable of its environment for ranks on other hosts, so the
  // last one must be unimportant. setenv() appends a variable that is not set.
  ::unsetenv(kLastVariable);
  ::setenv(kLastVariable, "1", 1);
  if (launch.verbose) (void)print_error(fmt::format("{}", fmt::join(arguments, " ")), 0);
  SpawnOptions options;
  options.command = std::move(arguments);
  options.inherit_everything = true;
  HVD_TRY_ASSIGN(const Child child, spawn(options));
  return wait_for(child.pid, signals);
}

}  // namespace

int run_program(const ProgramLaunch& launch) {
  return run_guarded([&] {
    const Result<int> code = try_run(launch);
    return code.is_ok() ? *code : print_error(code.status().message(), kFailure);
  });
}

}  // namespace hvd::launcher
