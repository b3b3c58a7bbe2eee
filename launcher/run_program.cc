#include "launcher/run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "launcher/remote.h"
#include "launcher/report.h"
#include "launcher/signals.h"
#include "launcher/store_place.h"
#include "net/secret.h"

namespace hvd::launcher {
namespace {

// A file that only its owner may read, gone when the job is over.
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

Result<pid_t> start(std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  sigset_t none;
  sigset_t pipe;
  ::sigemptyset(&none);
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &pipe);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, pointers[0], nullptr, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return io_error(arguments[0], error);
  return pid;
}

int wait_for(pid_t pid, Signals& signals) {
  while (true) {
    pollfd wait{signals.fd(), POLLIN, 0};
    (void)::poll(&wait, 1, -1);
    while (const auto signal = signals.next()) {
      // The terminal has sent SIGINT to the program as well; others have come here alone.
      if (*signal != SIGCHLD && *signal != SIGINT) (void)::kill(pid, *signal);
    }
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) return exit_code_of(status);
  }
}

Result<int> try_run(const ProgramLaunch& launch) {
  const bool one_host = std::all_of(launch.hosts.begin(), launch.hosts.end(),
                                    [](const Host& host) { return is_local(host.name); });
  HVD_TRY_ASSIGN(Signals signals, Signals::block({SIGCHLD, SIGINT, SIGTERM, SIGHUP}));
  const Secret secret = Secret::generate();
  HVD_TRY_ASSIGN(const StorePlace store,
                 start_store(secret, one_host, launch.interfaces, launch.tls));
  std::vector<std::string> arguments = launch.arguments;
  TemporaryFile file;
  if (launch.file.has_value()) {
    HVD_TRY_ASSIGN(file, TemporaryFile::write(launch.file->text));
    arguments[launch.file->argument] = file.path();
  }
  for (const auto& [name, value] : launch.environment) ::setenv(name.c_str(), value.c_str(), 1);
  // All addresses: which of them a host reaches, its ranks find out.
  const std::string where = fmt::format("{}", fmt::join(store.addresses, ","));
  ::setenv("HOROVOD_RENDEZVOUS", where.c_str(), 1);
  ::setenv("_HOROVOD_SECRET_KEY", secret.to_base64().c_str(), 1);
  if (launch.verbose) fmt::print(stderr, "horovodrun: {}\n", fmt::join(arguments, " "));
  HVD_TRY_ASSIGN(const pid_t pid, start(arguments));
  return wait_for(pid, signals);
}

}  // namespace

int run_program(const ProgramLaunch& launch) {
  const Result<int> code = try_run(launch);
  if (code.is_ok()) return *code;
  fmt::print(stderr, "horovodrun: {}\n", code.status().message());
  return 1;
}

}  // namespace hvd::launcher
