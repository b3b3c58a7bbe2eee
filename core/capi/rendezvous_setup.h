// SPDX-License-Identifier: Apache-2.0
// Determines which rendezvous server the ranks of a job use:
//
//   HOROVOD_RENDEZVOUS | started by    | rendezvous server
//   -------------------+---------------+--------------------------------------------------------
//   set                | our launcher  | that of the launcher
//   set                | anything else | that of a rank, at this address, if none is there
//   unset              | mpirun, srun  | that of the first rank; PMIx publishes its address
//
// The first rank is the first in the list of ranks that init() was given, and rank 0 without a
// list. The code calls it `leader`; it is not the leader of a host (ARCHITECTURE.md).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/deadline.h"
#include "base/status.h"
#include "net/rendezvous.h"
#include "net/secret.h"

namespace hvd {

// Fills in `rendezvous` and `secret_key` of a config that lacks them, and starts the rendezvous
// server if this rank runs it. kInvalidArgument names what is missing and how to provide it.
//
// A process has one RendezvousSetup for all jobs that it starts, so its rendezvous server outlives
// a job. Ranks leave a job and start the next one at different times: if the server ended with the
// job of its own rank, the next job of the other ranks would lose its server. One caller at a time.
class RendezvousSetup {
 public:
  // `ranks`: the ranks that take part, out of those that were started; empty: all. Jobs of other
  // ranks may start at the same time. A job of one rank needs no rendezvous server, but its rank
  // has to join PMIx if mpirun started it (net/pmix.h).
  Status arrange(Config& config, const std::vector<int>& ranks, Deadline deadline);

 private:
  Status meet_by_pmix(Config& config, int leader, Deadline deadline);
  Result<std::string> serve_everywhere(const Config& config);
  void serve(const std::string& rendezvous, const Secret& secret, bool tls, Deadline deadline);

  // Set if this rank runs the rendezvous server at a given address.
  std::unique_ptr<RendezvousServer> served_;
  std::string served_at_;  // HOROVOD_RENDEZVOUS when it was started
  // Set if this rank is the first of a job that meets by PMIx.
  std::unique_ptr<RendezvousServer> led_;
  // The texts "addresses secret" that first ranks have published by PMIx, by rank; also that of
  // this rank.
  std::map<int, std::string> words_;
};

}  // namespace hvd
