// SPDX-License-Identifier: Apache-2.0
// Broadcast: `data` of rank `root` becomes `data` of every rank. Sizes are equal on all ranks.
// After a failure the content of `data` is undefined, except on the root. Below, n is the number of
// ranks and B the size of `data`.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"

namespace hvd {

// Binomial tree with whole messages: ceil(log2(n)) rounds of one latency and B bytes. For small B.
Status binomial_broadcast(const CollectiveContext& context, Bytes data, int root);

// Chain of all ranks, in segments that are forwarded as they arrive: B bytes once, plus n - 2
// segments until the last rank has the first one. For large B; pipelining_pays() compares.
Status pipelined_broadcast(const CollectiveContext& context, Bytes data, int root);

// Two levels: among one leader per host, and within each host from its leader on. Trees with whole
// messages or chains with segments, whichever is quicker. The root is the leader of its host. Data
// enters every host once.
Status two_level_broadcast(const CollectiveContext& context, Bytes data, int root);

enum class BroadcastAlgorithm { kBinomial, kPipelined, kTwoLevel };
// For jobs that cannot use shared memory among all ranks. Equal on all ranks.
BroadcastAlgorithm choose_broadcast(size_t bytes, const Topology& topology);

// Through shared memory if all ranks are on one host and have it, else with choose_broadcast().
Status broadcast(const CollectiveContext& context, Bytes data, int root);

// Whether segments along a chain of `hops` links are quicker than whole messages in `rounds`
// rounds.
bool pipelining_pays(size_t bytes, int hops, int rounds);

}  // namespace hvd
