// SPDX-License-Identifier: Apache-2.0
// Measures what select.h calculates with.
#pragma once

#include "base/deadline.h"
#include "base/status.h"
#include "collectives/select.h"
#include "transport/transport.h"

namespace hvd {

// Collective; takes a few milliseconds on an idle network and gives the same model on every rank.
// One pair of ranks is timed for the links between hosts and one for those within; what the job
// has no pair for keeps its default.
Result<CostModel> calibrate(Transport& transport, Deadline deadline);

}  // namespace hvd
