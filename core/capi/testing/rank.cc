// SPDX-License-Identifier: Apache-2.0
#include "capi/testing/rank.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace scenario {
namespace {

constexpr int kPatienceMilliseconds = 30'000;

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (std::string& string : strings) all.push_back(string.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

std::string to_string(Placement placement) {
  switch (placement) {
    case Placement::kOneHost: return "OneHost";
    case Placement::kManyHosts: return "ManyHosts";
    case Placement::kTwoHosts: return "TwoHosts";
    case Placement::kNoMemory: return "NoMemory";
  }
  return "";
}

Rank::Rank(const std::vector<std::string>& arguments, const Settings& settings)
    : pid_(0), output_(-1) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  output_ = ends[0];
  std::vector<std::string> words = {HVD_SCENARIO_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strstr(*entry, "HOROVOD_") == nullptr) environment.emplace_back(*entry);
  }
  for (const auto& [name, value] : settings) {
    environment.push_back(name);
    environment.back().append("=").append(value);
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  EXPECT_EQ(posix_spawn(&pid_, HVD_SCENARIO_PROGRAM, &actions, nullptr, pointers(words).data(),
                        pointers(environment).data()),
            0);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
}

Rank::Rank(Rank&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      output_(std::exchange(other.output_, -1)),
      pending_(std::move(other.pending_)) {}

Rank::~Rank() {
  if (pid_ > 0) {
    send(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) ::close(output_);
}

void Rank::send(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

bool Rank::read_more() {
  pollfd ready{output_, POLLIN, 0};
  if (::poll(&ready, 1, kPatienceMilliseconds) != 1) {
    ADD_FAILURE() << "a rank writes nothing and does not end; last it wrote \"" << pending_ << '"';
    send(SIGKILL);
    return false;
  }
  char buffer[4096];
  const ssize_t count = ::read(output_, buffer, sizeof(buffer));
  if (count <= 0) return false;
  pending_.append(buffer, static_cast<size_t>(count));
  return true;
}

std::string Rank::line() {
  while (pending_.find('\n') == std::string::npos) {
    if (read_more()) continue;
    ADD_FAILURE() << "a rank has ended; last it wrote \"" << pending_ << '"';
    return "";
  }
  const size_t end = pending_.find('\n');
  std::string found = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return found;
}

Rank::End Rank::end() {
  while (read_more()) {
  }
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  return {std::exchange(pending_, {}), WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

Store::Store() {
  hvd_make_secret(secret_);
  EXPECT_EQ(hvd_store_start(secret_, "127.0.0.1", 0, &rendezvous_), HVD_OK) << hvd_error();
}

std::vector<Rank> Store::start(const std::vector<std::string>& arguments, int size,
                               Placement placement, const Settings& more) const {
  std::vector<Rank> ranks;
  for (int rank = 0; rank < size; ++rank) {
    std::string host = "one";
    if (placement == Placement::kManyHosts) host = "host-" + std::to_string(rank);
    if (placement == Placement::kTwoHosts) host = rank % 2 == 0 ? "even" : "odd";
    Settings settings = {
        {"HOROVOD_RANK", std::to_string(rank)},
        {"HOROVOD_SIZE", std::to_string(size)},
        {"HOROVOD_HOSTNAME", host},
        {"HOROVOD_RENDEZVOUS", "127.0.0.1:" + std::to_string(hvd_store_port(rendezvous_))},
        {"HOROVOD_NETWORK_INTERFACES", "lo"},
        {"HOROVOD_DYNAMIC_PROCESS_SETS", "1"},
        {"_HOROVOD_SECRET_KEY", secret_},
    };
    if (placement == Placement::kNoMemory) settings["HOROVOD_SHM_DISABLE"] = "1";
    for (const auto& [name, value] : more) settings[name] = value;
    ranks.emplace_back(arguments, settings);
  }
  return ranks;
}

}  // namespace scenario
