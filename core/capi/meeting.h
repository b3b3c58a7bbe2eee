// Where the ranks of a job meet: at the store of the launcher, at one that rank 0 serves at the
// address everybody was told, or, where mpirun has started the ranks and nobody was told anything,
// at one whose address rank 0 spreads by PMIx.
#pragma once

#include <memory>
#include <string>

#include "base/config.h"
#include "base/deadline.h"
#include "base/status.h"
#include "net/secret.h"
#include "net/store.h"

namespace hvd {

// Leads a job of several ranks to its meeting: fills in `rendezvous` and `secret_key` of a config
// that lacks them. kInvalidArgument says what is missing, and how to get it.
//
// One for a process, however many jobs it starts: ranks leave a job and start the next one each in
// its own time, so a store that ended with rank 0's job would take the others' next one with it.
class Meeting {
 public:
  // With `all_ranks` every rank that was started takes part: only then PMIx can be used.
  Status arrange(Config& config, bool all_ranks, Deadline deadline);

 private:
  Status meet_by_pmix(Config& config, Deadline deadline);
  void serve(const std::string& rendezvous, const Secret& secret, bool tls, Deadline deadline);

  std::unique_ptr<StoreServer> served_;  // if this rank serves the store
  std::string served_at_;                // HOROVOD_RENDEZVOUS of that time
  std::string heard_;                    // what PMIx has said
};

}  // namespace hvd
