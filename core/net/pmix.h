// SPDX-License-Identifier: Apache-2.0
// Words between the ranks of a job that mpirun or srun has started, through PMIx: the library by
// which such launchers let their processes find each other. It is looked for at run time and used
// for nothing else, so neither building nor running needs MPI.
//
// A process joins PMIx once and leaves it when it exits. Both matter to Open MPI. Version 4 gives a
// process the facts that MPI needs at the first connection only, so MPI cannot start after PMIx was
// left; and it ends the job as failed if a process exits inside PMIx, or has never joined while
// another one on its host has. MPI in the same process shares the library, which counts its users.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/fork_generation.h"
#include "base/status.h"

namespace hvd {

// One caller at a time.
class Pmix {
 public:
  // Whether the launcher of this process speaks PMIx.
  static bool is_offered();
  // Called once, when the library is loaded. At exit the process then leaves PMIx; a rank that has
  // not joined, because it was in no job, joins and leaves if another one on its host has joined.
  static void prepare_exit();
  // The client of this process, which stays; the first call joins. kUnavailable if there is no
  // library, and in a child of a process that has joined: the client's thread stayed behind.
  static Result<Pmix*> join();

  // Of this process, as the launcher counts.
  int rank() const;
  // Lets all ranks hear a word of this one; a key serves once.
  Status tell(const std::string& key, std::string word);
  // Waits for the word of a rank. kTimeout if it does not come. Can be interrupted.
  Result<std::string> hear(int rank, const std::string& key, Deadline deadline);

 private:
  struct Client;  // the library and this process's name in it
  explicit Pmix(std::unique_ptr<Client> client);
  static void exit();

  const std::unique_ptr<Client> client_;
  const ForkGeneration fork_generation_;
};

}  // namespace hvd
