// SPDX-License-Identifier: Apache-2.0
// The arguments of a rank process. From the command line:
//
//   <program> <task> <rank> <size> <host name> <interface> <rendezvous host:port>
//
// From the environment: the secret in HVD_RANK_SECRET, since other users can read a command line;
// and in HVD_RANK_HEARTBEAT_MS a heartbeat timeout other than the default.
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "net/rendezvous.h"
#include "net/secret.h"
#include "transport/fabric.h"

namespace hvd::testing {

inline Result<Secret> job_secret() {
  const char* encoded = std::getenv("HVD_RANK_SECRET");
  if (encoded == nullptr) return invalid_argument("HVD_RANK_SECRET is not set");
  return Secret::from_base64(encoded);
}

struct RankArguments {
  FabricOptions options;
  Secret secret;
  std::unique_ptr<RendezvousClient> rendezvous;

  // `args` are the seven words above. Connects to the rendezvous server.
  static Result<RankArguments> take(const std::vector<std::string>& args, Deadline deadline) {
    FabricOptions options;
    options.rank = std::stoi(args[2]);
    options.size = std::stoi(args[3]);
    options.host_name = args[4];
    options.interfaces = {args[5]};
    if (const char* text = std::getenv("HVD_RANK_HEARTBEAT_MS"); text != nullptr) {
      options.heartbeat_timeout = std::chrono::milliseconds(std::stoi(text));
    }
    HVD_TRY_ASSIGN(const Secret secret, job_secret());
    HVD_TRY_ASSIGN(auto rendezvous,
                   RendezvousClient::connect(args[6], secret, /*tls=*/false, deadline));
    return RankArguments{std::move(options), secret, std::move(rendezvous)};
  }
};

}  // namespace hvd::testing
