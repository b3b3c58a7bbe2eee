// SPDX-License-Identifier: Apache-2.0
#include "capi/rendezvous_setup.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/address.h"
#include "net/pmix.h"
#include "net/retry_pauses.h"

namespace hvd {

Status RendezvousSetup::arrange(Config& config, const std::vector<int>& ranks, Deadline deadline) {
  const int leader = ranks.empty() ? 0 : ranks.front();
  const size_t size = ranks.empty() ? static_cast<size_t>(config.size) : ranks.size();
  if (config.rendezvous.empty() && config.size > 1 && Pmix::is_offered()) {
    if (size == 1) {
      (void)Pmix::join();  // Open MPI requires it; this job does not use it
      return Status::ok();
    }
    return meet_by_pmix(config, leader, deadline)
        .with_context(
            "ranks of mpirun meet by PMIx unless HOROVOD_RENDEZVOUS and _HOROVOD_SECRET_KEY are "
            "set");
  }
  if (size == 1) return Status::ok();
  if (config.rendezvous.empty()) {
    return invalid_argument(
        fmt::format("this is a job of {} ranks, but there is no HOROVOD_RENDEZVOUS to meet at; "
                    "start them with horovodrun, or set HOROVOD_RENDEZVOUS=host:port to a free "
                    "port on the host of rank {}",
                    size, leader));
  }
  if (config.secret_key.empty()) {
    return invalid_argument(
        "a job of several ranks needs _HOROVOD_SECRET_KEY, the same on all; horovodrun makes one, "
        "and so does: openssl rand -base64 32");
  }
  if (config.rank == 0 || config.rank == leader) {
    HVD_TRY_ASSIGN(const Secret secret, Secret::from_base64(config.secret_key.text()));
    serve(config.rendezvous, secret, config.tls, deadline);
  }
  return Status::ok();
}

// mpirun and srun run no rendezvous server, and neither does a user who starts ranks by hand. Rank
// 0 and the first rank of the job call this. A call starts the server only if the address is one of
// this host and no process listens there yet.
void RendezvousSetup::serve(const std::string& rendezvous, const Secret& secret, bool tls,
                            Deadline deadline) {
  if (served_ != nullptr && served_at_ == rendezvous) return;
  // The name of this host may become known a moment later (Kubernetes). The other half of the time
  // is for the client's connection, which reports the problem if the name stays unknown.
  const Deadline half = Deadline::after(deadline.remaining() / 2);
  auto endpoints = resolve(rendezvous, half);
  RetryPauses pauses(half);
  while (!endpoints.is_ok() && endpoints.status().code() == StatusCode::kNotFound &&
         pauses.pause()) {
    endpoints = resolve(rendezvous, half);
  }
  if (!endpoints.is_ok()) return;  // the client's connection will report it
  for (const Endpoint& endpoint : *endpoints) {
    RendezvousServerOptions options;
    options.bind = endpoint;
    options.tls = tls;
    auto server = RendezvousServer::start(secret, options);
    if (!server.is_ok()) continue;
    HVD_LOG(kInfo, "this rank serves the rendezvous at {}", endpoint.to_string());
    served_ = std::move(server).value();
    served_at_ = rendezvous;
    return;
  }
}

Status RendezvousSetup::meet_by_pmix(Config& config, int leader, Deadline deadline) {
  constexpr char kKey[] = "hvd.rendezvous";
  HVD_TRY_ASSIGN(Pmix * pmix, Pmix::join());
  if (pmix->rank() != config.rank) {
    return invalid_argument(
        fmt::format("HOROVOD_RANK={}, but the launcher and PMIx count this process as rank {}",
                    config.rank, pmix->rank()));
  }
  auto known = words_.find(leader);
  if (known == words_.end()) {
    std::string word;
    if (leader == config.rank) {
      HVD_TRY_ASSIGN(word, serve_everywhere(config));
      HVD_TRY(pmix->tell(kKey, word));
    } else {
      HVD_TRY_ASSIGN(word, pmix->hear(leader, kKey, deadline));
    }
    known = words_.emplace(leader, word).first;
  }
  const std::string& word = known->second;
  const size_t space = word.find(' ');
  if (space == std::string::npos)
    return internal_error(
        fmt::format("PMIx returned other data than rank {} has published", leader));
  config.rendezvous = word.substr(0, space);
  config.secret_key = SecretText(word.substr(space + 1));
  return Status::ok();
}

// Starts the rendezvous server for the jobs whose first rank is this rank. Returns the addresses of
// the server and a new secret of its own.
Result<std::string> RendezvousSetup::serve_everywhere(const Config& config) {
  const Secret secret = Secret::generate();
  HVD_TRY_ASSIGN(const std::vector<Interface> here, public_interfaces(config.network_interfaces));
  if (here.empty()) return unavailable("this host has no network interface to meet at");
  RendezvousServerOptions options;
  options.tls = config.tls;
  options.bind = here.front().address;
  for (size_t i = 1; i < here.size(); ++i) options.more.push_back(here[i].address);
  HVD_TRY_ASSIGN(led_, RendezvousServer::start(secret, options));
  std::vector<std::string> places;
  for (const Endpoint& each : led_->endpoints()) places.push_back(each.to_string());
  return fmt::format("{} {}", fmt::join(places, ","), secret.to_base64());
}

}  // namespace hvd
