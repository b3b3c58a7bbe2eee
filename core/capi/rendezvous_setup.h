// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a job meet: at the rendezvous server of the launcher, at one that the first
// rank serves at the address that all ranks were given, or, where mpirun has started the ranks and
// they were given no address, at one whose address the first rank spreads by PMIx.
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

// Leads a job of several ranks to its meeting: fills in `rendezvous` and `secret_key` of a config
// that lacks them. kInvalidArgument says what is missing, and how to get it.
//
// One for a process, however many jobs it starts: ranks leave a job and start the next one each in
// its own time, so a rendezvous server that ended with rank 0's job would take the others' next one
// with it.
class RendezvousSetup {
 public:
  // `ranks`: those that take part, of those that were started; empty: all. Jobs of other ranks may
  // start at the same time. A job of one rank needs no meeting, but mpirun has to see that rank
  // too.
  Status arrange(Config& config, const std::vector<int>& ranks, Deadline deadline);

 private:
  Status meet_by_pmix(Config& config, int leader, Deadline deadline);
  Result<std::string> serve_everywhere(const Config& config);
  void serve(const std::string& rendezvous, const Secret& secret, bool tls, Deadline deadline);

  std::unique_ptr<RendezvousServer> served_;  // if this rank serves the rendezvous server
  std::string served_at_;                     // HOROVOD_RENDEZVOUS of that time
  std::unique_ptr<RendezvousServer>
      led_;  // the rendezvous server of the jobs whose first rank this is, by PMIx
  std::map<int, std::string> words_;  // what ranks have said by PMIx, this one among them
};

}  // namespace hvd
