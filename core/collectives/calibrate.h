// SPDX-License-Identifier: Apache-2.0
// calibrate() measures the figures of the cost model (CostModel in select.h) on the network of this
// job. A job of several hosts runs it once at its start; a job on one host keeps the defaults of
// select.h.
#pragma once

#include "base/deadline.h"
#include "base/status.h"
#include "collectives/select.h"
#include "transport/transport.h"

namespace hvd {

// Collective: all ranks call it, and all get the same model. It takes a few milliseconds on an idle
// network. One pair of ranks times the links between hosts and one pair the links within a host. A
// figure keeps its default when the job has no such pair. Fails as Transport does.
Result<CostModel> calibrate(Transport& transport, Deadline deadline);

}  // namespace hvd
