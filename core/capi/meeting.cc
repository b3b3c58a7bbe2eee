#include "capi/meeting.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/address.h"
#include "net/pmix.h"
#include "net/retry_pauses.h"

namespace hvd {

Status Meeting::arrange(Config& config, bool all_ranks, Deadline deadline) {
  if (config.rendezvous.empty() && all_ranks && started_with_pmix()) {
    return meet_by_pmix(config, deadline)
        .with_context(
            "ranks of mpirun meet by PMIx unless HOROVOD_RENDEZVOUS and _HOROVOD_SECRET_KEY are "
            "set");
  }
  if (config.rendezvous.empty()) {
    return invalid_argument(
        fmt::format("this is a job of {} ranks, but there is no HOROVOD_RENDEZVOUS to meet at; "
                    "start them with horovodrun, or set HOROVOD_RENDEZVOUS=host:port to a free "
                    "port on the host of rank 0",
                    config.size));
  }
  if (config.secret_key.empty()) {
    return invalid_argument(
        "a job of several ranks needs _HOROVOD_SECRET_KEY, the same on all; horovodrun makes one, "
        "and so does: openssl rand -base64 32");
  }
  if (config.rank == 0) {
    HVD_TRY_ASSIGN(const Secret secret, Secret::from_base64(config.secret_key.text()));
    serve(config.rendezvous, secret, config.tls, deadline);
  }
  return Status::ok();
}

// Ranks that were started by hand, by mpirun or by srun have nobody who serves the store: rank 0
// does, if the address is one of its host's and nobody listens there.
void Meeting::serve(const std::string& rendezvous, const Secret& secret, bool tls,
                    Deadline deadline) {
  if (served_ != nullptr && served_at_ == rendezvous) return;
  // The name of this host may become known a moment later, as those of Kubernetes do. Half of the
  // time is left to connect, and to say what is wrong with the name.
  const Deadline half = Deadline::after(deadline.remaining() / 2);
  auto endpoints = resolve(rendezvous, half);
  RetryPauses pauses(half);
  while (!endpoints.is_ok() && endpoints.status().code() == StatusCode::kNotFound &&
         pauses.pause()) {
    endpoints = resolve(rendezvous, half);
  }
  if (!endpoints.is_ok()) return;  // connecting will say so
  for (const Endpoint& endpoint : *endpoints) {
    StoreServerOptions options;
    options.bind = endpoint;
    options.tls = tls;
    auto server = StoreServer::start(secret, options);
    if (!server.is_ok()) continue;
    HVD_LOG(kInfo, "rank 0 serves the rendezvous at {}", endpoint.to_string());
    served_ = std::move(server).value();
    served_at_ = rendezvous;
    return;
  }
}

Status Meeting::meet_by_pmix(Config& config, Deadline deadline) {
  if (heard_.empty()) {
    std::optional<std::string> word;
    if (config.rank == 0) {
      const Secret secret = Secret::generate();
      HVD_TRY_ASSIGN(const std::vector<Interface> here,
                     public_interfaces(config.network_interfaces));
      if (here.empty()) return unavailable("this host has no network interface to meet at");
      StoreServerOptions options;
      options.tls = config.tls;
      options.bind = here.front().address;
      for (size_t i = 1; i < here.size(); ++i) options.more.push_back(here[i].address);
      HVD_TRY_ASSIGN(served_, StoreServer::start(secret, options));
      std::vector<std::string> places;
      for (const Endpoint& each : served_->endpoints()) places.push_back(each.to_string());
      word = fmt::format("{} {}", fmt::join(places, ","), secret.to_base64());
    }
    HVD_TRY_ASSIGN(heard_, share_by_pmix("hvd.rendezvous", word, deadline));
  }
  const size_t space = heard_.find(' ');
  if (space == std::string::npos) return internal_error("PMIx gave another word than rank 0's");
  config.rendezvous = heard_.substr(0, space);
  config.secret_key = SecretText(heard_.substr(space + 1));
  return Status::ok();
}

}  // namespace hvd
