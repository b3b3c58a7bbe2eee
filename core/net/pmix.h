// SPDX-License-Identifier: Apache-2.0
// Short messages between the ranks of a job that mpirun or srun has started, through PMIx, the
// library by which such launchers let their processes find each other. The library is loaded at run
// time and used for nothing else, so neither building nor running needs MPI.
//
// A process joins PMIx once and leaves it when it exits. Open MPI requires both:
// - Version 4 gives a process the data that MPI needs at the first connection only, so MPI cannot
//   start after the process has left PMIx.
// - It ends the job as failed if a process exits without leaving PMIx, or if a process has never
//   joined while another process on its host has.
// MPI in the same process shares the library, which counts its users.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/fork_generation.h"
#include "base/status.h"

namespace hvd {

// One caller at a time. The object lives as long as the process.
class Pmix {
 public:
  // Whether the launcher of this process offers PMIx (PMIX_NAMESPACE is set).
  static bool is_offered();
  // Called once, when the library is loaded. Makes the process leave PMIx at exit. A rank that has
  // not joined, because it was in no job, then joins and leaves if another rank on its host has
  // joined.
  static void prepare_exit();
  // The client of this process; the first call joins. Never destroyed. kUnavailable if there is no
  // library, and in a forked child of a process that has joined: the child does not have the
  // library's thread.
  static Result<Pmix*> join();

  // The rank that the launcher gave to this process.
  int rank() const;
  // Publishes `word`, a short text, under `key` to all ranks. Each key can be used once.
  Status tell(const std::string& key, std::string word);
  // Waits for the text that `rank` publishes under `key`; kTimeout at the deadline. Can be
  // interrupted (base/interrupt.h).
  Result<std::string> hear(int rank, const std::string& key, Deadline deadline);

 private:
  struct Client;  // the library and this process's name in it
  explicit Pmix(std::unique_ptr<Client> client);
  static void exit();

  const std::unique_ptr<Client> client_;
  const ForkGeneration fork_generation_;
};

}  // namespace hvd
