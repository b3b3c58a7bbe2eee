// A word from rank 0 to all ranks of a job that mpirun or srun has started, by way of PMIx: the
// library by which such launchers let their processes find each other. It is looked for at run time
// and used for nothing else, so neither building nor running needs MPI.
//
// A program that wants MPI itself starts it before: once PMIx was used and left, Open MPI 4 cannot
// start in that process any more. MPI that runs already goes on undisturbed.
#pragma once

#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/status.h"

namespace hvd {

// Whether the launcher of this process speaks PMIx.
bool started_with_pmix();

// Rank 0 gives a word and gets it back; the others give none and wait for it. A key serves once.
// kUnavailable if there is no library for it, kTimeout if rank 0 does not speak.
Result<std::string> share_by_pmix(const std::string& key, const std::optional<std::string>& word,
                                  Deadline deadline);

}  // namespace hvd
