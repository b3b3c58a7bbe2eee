// SPDX-License-Identifier: Apache-2.0
// Checks of a submission that need no other rank. The caller gets these errors at once; the other
// ranks do not see them.
#pragma once

#include <span>

#include "base/status.h"
#include "engine/operation.h"

namespace hvd {

// Checks one tensor for the process set of `job_ranks`. Fills in equal splits for an alltoall
// without splits. Fails with kInvalidArgument; the text names the operation and the tensor.
Status check_arguments(TensorTask& task, std::span<const int> job_ranks);

}  // namespace hvd
