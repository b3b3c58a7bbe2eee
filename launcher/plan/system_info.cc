// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/system_info.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

#include "net/fd.h"

extern char** environ;

namespace hvd::launcher {
namespace {

// Less than the 7 s of silence after which the launcher treats a host as lost: an agent that runs
// Python for --doctor sends nothing meanwhile.
constexpr std::chrono::seconds kCommandTimeout{5};

// A process in its own group, so that it can be killed with its children.
class Child {
 public:
  // Standard output is connected to `output`.
  static Result<Child> start(const std::vector<std::string>& command, const Fd& output) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    Child child;
    const int error =
        posix_spawnp(&child.pid_, arguments[0], &actions, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error == ENOENT || error == EACCES) {
      return not_found(fmt::format("there is no program {} in PATH", command[0]));
    }
    if (error != 0) return io_error(command[0], error);
    return child;
  }

  // Waits for the end; false at the deadline.
  bool ends(Deadline deadline) const {
    const Fd life(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    pollfd entry{.fd = life.get(), .events = POLLIN, .revents = 0};
    while (life.valid() && poll(&entry, 1, deadline.poll_milliseconds()) <= 0) {
      if (deadline.expired()) return false;
    }
    return true;
  }

  // Waits for the end. Returns the exit code, or 128 + signal.
  int collect() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void kill_all() {
    kill(-pid_, SIGKILL);
    collect();
  }

 private:
  pid_t pid_ = -1;
};

// Reads until the other end is closed; false if the deadline expires first.
Result<bool> read_to_end(const Fd& fd, Deadline deadline, std::string& text) {
  std::array<char, 4096> buffer;
  while (true) {
    pollfd entry{.fd = fd.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&entry, 1, deadline.poll_milliseconds());
    if (ready < 0 && errno != EINTR) return io_error("poll", errno);
    if (ready <= 0 && deadline.expired()) return false;
    if (ready <= 0) continue;
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno != EINTR) return io_error("read", errno);
    if (count == 0) return true;
    if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
  }
}

}  // namespace

std::string SystemInfo::variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Result<std::string> run_python(const SystemInfo& system, const std::string& script) {
  // pip installs horovodrun into the same directory as the python3 of a virtual environment.
  const auto beside = std::filesystem::path(system.own_program).parent_path() / "python3";
  Result<std::string> answer = not_found("");
  for (const std::string& python :
       {beside.string(), std::string("python3"), std::string("python")}) {
    answer = system.output_of({python, "-c", script});
    if (answer.status().code() != StatusCode::kNotFound) break;
  }
  return answer;
}

SystemInfo this_system() {
  SystemInfo result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result.environment[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  std::error_code error;
  result.directory = std::filesystem::current_path(error).string();
  result.own_program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  result.output_of = [](const std::vector<std::string>& command) {
    return capture_output(command, Deadline::after(kCommandTimeout));
  };
  result.has_library = [](const std::string& library) {
    void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
  };
  return result;
}

// Waits for the end of the pipe and for the end of the program: either may come first.
Result<std::string> capture_output(const std::vector<std::string>& command, Deadline deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return io_error("pipe", errno);
  const Fd output(ends[0]);
  Fd input(ends[1]);
  HVD_TRY_ASSIGN(Child child, Child::start(command, input));
  input.reset();  // otherwise this process keeps the pipe open and never reads its end
  std::string text;
  const auto closed = read_to_end(output, deadline, text);
  if (!closed.is_ok() || !*closed || !child.ends(deadline)) {
    child.kill_all();
    if (!closed.is_ok()) return closed.status();
    return timeout_error(fmt::format("{} does not end", command[0]));
  }
  const int code = child.collect();
  if (code != 0) return unavailable(fmt::format("{} ended with exit code {}", command[0], code));
  return text;
}

Result<std::string> read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "re"),
                                                                &std::fclose);
  if (file == nullptr) return io_error(path, errno);
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    text.append(buffer.data(), count);
  }
  if (std::ferror(file.get()) != 0) return io_error(path, errno);
  return text;
}

}  // namespace hvd::launcher
