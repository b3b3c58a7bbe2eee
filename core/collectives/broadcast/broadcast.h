// SPDX-License-Identifier: Apache-2.0
// Broadcast: every rank gets the bytes that `root` has in `data`. Sizes are equal on all ranks.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"

namespace hvd {

// Whole messages down a binomial tree: log2(n) times latency and data.
Status binomial_broadcast(const CollectiveContext& context, Bytes data, int root);

// Segments along a chain, forwarded as they arrive: data once, plus n - 2 segments until the last
// rank has the first one.
Status pipelined_broadcast(const CollectiveContext& context, Bytes data, int root);

// Between one leader per host, and inside each host from its leader on; whole messages down trees
// or segments along chains, whichever is quicker. The leader of the root's host is the root.
Status two_level_broadcast(const CollectiveContext& context, Bytes data, int root);

enum class BroadcastAlgorithm { kBinomial, kPipelined, kTwoLevel };
BroadcastAlgorithm choose_broadcast(size_t bytes, const Topology& topology);

// With the algorithm that costs least.
Status broadcast(const CollectiveContext& context, Bytes data, int root);

// Whether segments along a chain of `hops` are quicker than the whole in `rounds` rounds.
bool pipelining_pays(size_t bytes, int hops, int rounds);

}  // namespace hvd
