// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "net/authenticate.h"
#include "net/retry_pauses.h"
#include "net/socket.h"

namespace hvd::launcher {
namespace {

// Less than the 7 s of silence after which the launcher treats a host as lost: the agent sends
// nothing while it waits here.
constexpr std::chrono::seconds kRendezvousTimeout{5};
constexpr std::chrono::seconds kHandshakeTimeout{2};

// The home directory, or "/" if there is none that this user can enter.
std::string home() {
  const char* folder = std::getenv("HOME");
  return folder != nullptr && ::access(folder, X_OK) == 0 ? folder : "/";
}

// Without duplicates: an interface has an entry per address.
std::vector<std::string> names_of(const std::vector<Interface>& interfaces) {
  std::vector<std::string> names;
  for (const Interface& each : interfaces) {
    if (std::find(names.begin(), names.end(), each.name) == names.end()) names.push_back(each.name);
  }
  return names;
}

}  // namespace

Result<Endpoint> find_rendezvous(const StartRanks& job) {
  std::vector<Endpoint> candidates;
  for (const std::string& text : job.rendezvous) {
    HVD_TRY_ASSIGN(candidates.emplace_back(), Endpoint::parse(text));
  }
  // On one host the only candidate is the loopback address: nothing to choose.
  if (job.one_host && !candidates.empty()) return candidates.front();
  HVD_TRY_ASSIGN(const Secret secret, Secret::from_base64(job.secret.text()));
  const Deadline deadline = Deadline::after(kRendezvousTimeout);
  RetryPauses pauses(deadline);
  std::string why = "no address";
  while (!candidates.empty()) {
    auto socket = connect_any(candidates, deadline);
    if (!socket.is_ok()) {
      why = socket.status().message();
      break;
    }
    HVD_TRY_ASSIGN(const Endpoint peer, peer_endpoint(*socket));
    const auto stream = connect_stream(std::move(*socket), secret, {job.tls},
                                       earlier(deadline, Deadline::after(kHandshakeTimeout)));
    if (stream.is_ok()) return peer;
    why = fmt::format("{}: {}", peer.to_string(), stream.status().message());
    // The server had too many connections, or this is a proxy whose backend is not up yet: retry.
    if (stream.status().code() == StatusCode::kPeerLost && pauses.pause()) continue;
    // Another program listens at this address.
    std::erase(candidates, peer);
  }
  return unavailable(
      fmt::format("cannot reach the launcher at {} ({}); check that no firewall blocks the "
                  "connection, or name the right network with --network-interfaces",
                  fmt::join(job.rendezvous, ", "), why));
}

Result<std::vector<Interface>> interfaces_among(const std::vector<std::string>& names) {
  HVD_TRY_ASSIGN(std::vector<Interface> all, local_interfaces({}));
  const std::vector<std::string> present = names_of(all);
  std::erase_if(all, [&](const Interface& each) {
    return std::find(names.begin(), names.end(), each.name) == names.end();
  });
  if (!all.empty()) return all;
  return not_found(fmt::format(
      "none of the network interfaces {} exists here, is up and has an address; there are: {}",
      fmt::join(names, ", "), fmt::join(present, ", ")));
}

Result<std::vector<std::string>> usable_interfaces(const StartRanks& job) {
  if (!job.interfaces.empty()) {
    HVD_TRY_ASSIGN(const std::vector<Interface> found, interfaces_among(job.interfaces));
    return names_of(found);
  }
  if (!job.one_host) return std::vector<std::string>();
  HVD_TRY_ASSIGN(std::vector<Interface> all, local_interfaces({}));
  std::erase_if(all, [](const Interface& each) { return !each.loopback; });
  return names_of(all);
}

std::string usable_directory(const StartRanks& job, std::string& warning) {
  if (::access(job.directory.c_str(), X_OK) == 0) return job.directory;
  warning =
      fmt::format("the directory {} does not exist; its ranks start in {}",
                  job.directory.empty() ? "that horovodrun was started in" : job.directory, home());
  return home();
}

std::string explain_command(const std::string& command, const Status& why) {
  if (why.code() != StatusCode::kNotFound) {
    return fmt::format("cannot run \"{}\": {}", command, why.message());
  }
  if (command.find('/') == std::string::npos) {
    return fmt::format("there is no command \"{}\" in PATH", command);
  }
  // execve() reports ENOENT also if the interpreter of a script ("#!") does not exist.
  std::error_code ignored;
  if (std::filesystem::exists(command, ignored)) {
    return fmt::format("\"{}\" is there, but the interpreter that its first line names is not",
                       command);
  }
  return fmt::format("there is no command \"{}\"", command);
}

}  // namespace hvd::launcher
