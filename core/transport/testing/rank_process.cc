// SPDX-License-Identifier: Apache-2.0
#include "transport/testing/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "net/socket.h"

namespace hvd::testing {

Result<RankProcess> RankProcess::start(const std::string& task, int rank, int size,
                                       const std::string& host, const Secret& secret,
                                       const RendezvousServer& rendezvous) {
  return start_program(HVD_RANK_PROGRAM, task, rank, size, host, secret, rendezvous);
}

Result<RankProcess> RankProcess::start_program(const std::string& program, const std::string& task,
                                               int rank, int size, const std::string& host,
                                               const Secret& secret,
                                               const RendezvousServer& rendezvous) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return io_error("make a pipe", errno);
  Fd output(ends[0]);
  const Fd input(ends[1]);
  std::vector<std::string> words{program,
                                 task,
                                 std::to_string(rank),
                                 std::to_string(size),
                                 host,
                                 "lo",
                                 rendezvous.endpoint().to_string()};
  std::vector<std::string> settings{"HVD_RANK_SECRET=" + secret.to_base64()};
  for (char** setting = environ; *setting != nullptr; ++setting) settings.emplace_back(*setting);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (std::string& setting : settings) envp.push_back(setting.data());
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return io_error("start " + program, error);
  return RankProcess(pid, std::move(output));
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      output_(std::move(other.output_)),
      pending_(std::move(other.pending_)) {}

RankProcess::~RankProcess() {
  kill();
  wait();
}

Result<std::string> RankProcess::line(Deadline deadline) {
  while (pending_.find('\n') == std::string::npos) {
    HVD_TRY(wait_for(output_.get(), POLLIN, deadline));
    char buffer[4096];
    const ssize_t count = ::read(output_.get(), buffer, sizeof(buffer));
    if (count <= 0) return not_found("the rank ended; last it wrote \"" + pending_ + "\"");
    pending_.append(buffer, static_cast<size_t>(count));
  }
  const size_t end = pending_.find('\n');
  std::string found = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return found;
}

void RankProcess::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

void RankProcess::freeze() {
  if (pid_ > 0) ::kill(pid_, SIGSTOP);
}

void RankProcess::thaw() {
  if (pid_ > 0) ::kill(pid_, SIGCONT);
}

int RankProcess::wait() {
  if (pid_ <= 0) return -1;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace hvd::testing
