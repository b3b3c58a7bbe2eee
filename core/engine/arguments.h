// SPDX-License-Identifier: Apache-2.0
// What can be wrong with a submission by itself, before other ranks have anything to say. These
// errors come at once, to the caller alone.
#pragma once

#include <span>

#include "base/status.h"
#include "engine/operation.h"

namespace hvd {

// Checks one tensor of the process set `job_ranks`, and fills in what follows from the rest: equal
// splits where none are given.
Status check_arguments(TensorTask& task, std::span<const int> job_ranks);

}  // namespace hvd
