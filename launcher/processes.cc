// SPDX-License-Identifier: Apache-2.0
#include "launcher/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

namespace hvd::launcher {
namespace {

std::optional<rlimit> original_limit;  // set by raise_descriptor_limit()

struct Pipe {
  Fd read;
  Fd write;
};

// Adds the remedy if a limit is the cause.
Status spawn_error(const char* call, int error) {
  Status status = io_error(call, error);
  const char* limit = error == EMFILE ? "open files (ulimit -n)" : "processes (ulimit -u)";
  if (error != EMFILE && error != EAGAIN) return status;
  return unavailable(
      fmt::format("{}; raise the limit of {}, or start fewer ranks", status.message(), limit));
}

Result<Pipe> make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return spawn_error("pipe2", errno);
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that a child needs between fork and exec, where it must neither allocate nor lock
// (only async-signal-safe calls). The descriptors are plain numbers because a forked child closes
// every Fd.
struct ChildSetup {
  const char* program;
  std::vector<char*> command;
  std::vector<char*> environment;
  const char* directory;
  bool new_group;
  bool new_session;
  int parent_death_signal;
  pid_t parent;
  std::array<int, 3> streams;
  int report;  // takes errno when the command cannot be run
};

// Undoes Signals::block() for the child: a blocked or ignored signal survives exec.
void restore_signals() {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &plain, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Runs in the child. The parent turns errno into an error message.
[[noreturn]] void report_errno(int report) {
  const int error = errno;
  (void)!::write(report, &error, sizeof(error));
  ::_exit(127);
}

// Runs in the child between fork and exec. Unblocks signals last, when the child has its final
// state.
[[noreturn]] void exec_child(ChildSetup& p) {
  if (p.new_session && ::setsid() < 0) report_errno(p.report);
  if (p.new_group && ::setpgid(0, 0) < 0) report_errno(p.report);
  if (p.parent_death_signal != 0) {
    ::prctl(PR_SET_PDEATHSIG, p.parent_death_signal);
    if (::getppid() != p.parent) ::_exit(127);  // the parent ended before prctl
  }
  for (int stream = 0; stream < 3; ++stream) {
    if (::dup2(p.streams[static_cast<size_t>(stream)], stream) < 0) report_errno(p.report);
  }
  if (p.directory != nullptr && ::chdir(p.directory) != 0) report_errno(p.report);
  if (original_limit.has_value()) ::setrlimit(RLIMIT_NOFILE, &*original_limit);
  restore_signals();
  if (!p.environment.empty()) environ = p.environment.data();  // execvp reads PATH from environ
  ::execvp(p.program, p.command.data());
  report_errno(p.report);
}

// A duplicate above the standard streams that is not an Fd, so that it stays open through fork.
class UnownedFd {
 public:
  explicit UnownedFd(int fd) : fd_(::fcntl(fd, F_DUPFD_CLOEXEC, 3)) {}
  ~UnownedFd() { close(); }
  UnownedFd(const UnownedFd&) = delete;
  UnownedFd& operator=(const UnownedFd&) = delete;
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// Waits for the result of exec: success closes the pipe (O_CLOEXEC), failure sends errno through
// it.
Status wait_for_exec(const Fd& report, const std::string& command, pid_t pid) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(report.get(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count != sizeof(error)) return Status::ok();
  (void)::waitpid(pid, nullptr, 0);
  if (error == ENOENT) return not_found(command + ": command not found");
  return io_error(command, error);
}

// The standard streams of the child; it inherits ours where the Fd is invalid.
struct Streams {
  Fd input;
  Fd output;
  Fd error;
};

// Creates the pipes: the child's ends in the result, the parent's ends in `child`.
Result<Streams> make_streams(const SpawnOptions& options, Child& child) {
  Streams streams;
  if (options.inherit_everything) return streams;
  if (options.give_input) {
    HVD_TRY_ASSIGN(Pipe pipe, make_pipe());
    streams.input = std::move(pipe.read);
    child.input = std::move(pipe.write);
  } else {
    streams.input = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  HVD_TRY_ASSIGN(Pipe output, make_pipe());
  streams.output = std::move(output.write);
  child.output = std::move(output.read);
  if (options.take_stderr) {
    HVD_TRY_ASSIGN(Pipe pipe, make_pipe());
    streams.error = std::move(pipe.write);
    child.error = std::move(pipe.read);
  }
  return streams;
}

}  // namespace

Result<Child> spawn(const SpawnOptions& options) {
  Child child;
  HVD_TRY_ASSIGN(Pipe report, make_pipe());
  HVD_TRY_ASSIGN(const Streams made, make_streams(options, child));
  const auto either = [](const Fd& fd, int own) { return fd.valid() ? fd.get() : own; };
  const UnownedFd streams[] = {UnownedFd(either(made.input, STDIN_FILENO)),
                               UnownedFd(either(made.output, STDOUT_FILENO)),
                               UnownedFd(either(made.error, STDERR_FILENO))};
  UnownedFd report_to(report.write.get());
  if (streams[0].get() < 0 || streams[1].get() < 0 || report_to.get() < 0) {
    return spawn_error("dup", errno);
  }
  const std::string& program = options.program.empty() ? options.command[0] : options.program;
  ChildSetup setup{program.c_str(),
                   pointers_to(options.command),
                   {},
                   options.directory.empty() ? nullptr : options.directory.c_str(),
                   !options.inherit_everything && !options.new_session,
                   options.new_session,
                   options.parent_death_signal,
                   ::getpid(),
                   {streams[0].get(), streams[1].get(), streams[2].get()},
                   report_to.get()};
  if (!options.environment.empty()) setup.environment = pointers_to(options.environment);
  child.pid = ::fork();
  if (child.pid < 0) return spawn_error("fork", errno);
  if (child.pid == 0) exec_child(setup);
  report.write.reset();
  report_to.close();
  HVD_TRY(wait_for_exec(report.read, program, child.pid));
  return child;
}

std::vector<pid_t> descendants() {
  // One pass over all processes: /proc/PID/task/*/children exists only with CONFIG_PROC_CHILDREN.
  std::multimap<pid_t, pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string stat;
    std::getline(std::ifstream("/proc/" + name + "/stat"), stat, '\0');
    // "pid (name) state parent ...": the name may contain ")", so search from the end.
    const size_t after_name = stat.rfind(')');
    if (after_name == std::string::npos || after_name + 4 >= stat.size()) continue;
    pid_t parent = 0;
    std::from_chars(stat.data() + after_name + 4, stat.data() + stat.size(), parent);
    children.emplace(parent, std::atoi(name.c_str()));
  }
  std::vector<pid_t> found = {::getpid()};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

void signal_all(const std::vector<pid_t>& processes, int signal) {
  for (const pid_t pid : processes) (void)::kill(pid, signal);
}

Status become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) return Status::ok();
  return io_error("PR_SET_CHILD_SUBREAPER", errno);
}

void repair_inherited_state() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() returns the lowest free number, which is `stream`.
    if (::fcntl(stream, F_GETFD) < 0) (void)!::open("/dev/null", O_RDWR);
  }
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &plain, nullptr);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  original_limit = limit;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace hvd::launcher
