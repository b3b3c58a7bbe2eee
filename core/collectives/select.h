// SPDX-License-Identifier: Apache-2.0
// AllreduceSelector: selects the algorithm of an allreduce by the size of its buffer. It serves
// allreduce alone, and two_level_allreduce between hosts; the other collectives compare two or
// three algorithms with message_cost.h (choose_allgather, choose_broadcast, choose_reducescatter).
//
// Every rank decides alone, by arithmetic on the same model, topology and size. Nothing is
// exchanged, so the ranks cannot disagree, provided that all have the same AllreduceOptions.
//
// What each algorithm costs, for n ranks and a buffer of B bytes (per rank):
//
//   algorithm           messages in a row      bytes sent          best for
//   shared memory       1 or 2 rounds a chunk  none, 2 copies      one host: every size
//   recursive doubling  log2(n)                log2(n) · B         small B
//   halving-doubling    2 log2(n)              2 (n-1)/n · B       middle B, n a power of two
//   ring                2 (n-1)                2 (n-1)/n · B       large B
//   two levels          2 within the host and  2 (h-1)/h · B       h hosts with several ranks
//                       those between h hosts  per host
//
// Both doubling algorithms send 2 B more when n is not a power of two (fold.h). With the default
// model and one rank per host the limits are, in bytes:
//
//   hosts   recursive doubling up to   halving-doubling up to   ring
//     2             120 K                       -               above
//     4              26 K                     320 K             above
//     8              16 K                     1.1 M             above
//    64              10 K                      14 M             above
//     3               4 K                       -               above
//     7              24 K                       -               above
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "transport/topology.h"

namespace hvd {

enum class AllreduceAlgorithm : uint8_t {
  kAuto,               // the quickest one by the model
  kSharedMemory,       // all ranks on one host, through the arena that they share
  kRecursiveDoubling,  // fewest rounds
  kRing,               // least data, streamed, most rounds
  kHalvingDoubling,    // least data in few rounds
  kTwoLevel,           // inside each host, then between hosts
};

// "recursive_doubling" for kRecursiveDoubling: the values of HOROVOD_ALLREDUCE_ALGORITHM.
std::string_view to_string(AllreduceAlgorithm algorithm);
// kInvalidArgument for an unknown name; the message lists the accepted names.
Result<AllreduceAlgorithm> parse_allreduce_algorithm(std::string_view name);

// One link between two ranks.
struct LinkCost {
  double latency_us;    // one way, for a few bytes
  double bytes_per_us;  // 1 is 1 MB/s; the ranks of a host that send at the same time share it
};

// The defaults were measured on two cores: TCP with spinning receivers (5-7 us), here with the
// bandwidth of 10 Gbit/s; messages through shared memory; additions of float32 in the outer caches.
// calibrate.h measures them for the network of a job.
struct CostModel {
  LinkCost between_hosts{6.0, 1250.0};
  LinkCost within_host{0.3, 8000.0};
  double combine_bytes_per_us = 20000.0;  // of one operand, on one core
};

// Microseconds of an algorithm as a function of the buffer size, which is linear for all of them.
struct Cost {
  double fixed_us = 0;
  double us_per_byte = 0;
  double at(size_t bytes) const { return fixed_us + us_per_byte * static_cast<double>(bytes); }
};
// The cost of any algorithm except kAuto, whether or not the topology allows it.
Cost estimate(AllreduceAlgorithm algorithm, const Topology& topology, const CostModel& model);

// Equal on all ranks of a communicator.
struct AllreduceOptions {
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::kAuto;
  // The bits of an element's result must not depend on its place in the buffer nor on the size of
  // the buffer. Excludes the ring.
  bool deterministic = false;
  // Bytes of one chunk of the pipeline through shared memory, at most one slot. 0: the size that
  // was measured to be best.
  size_t chunk_bytes = 0;
  CostModel model;
};

// Immutable: choose() is safe from any thread. Made once per communicator, because make() estimates
// every candidate, which costs more than a small operation; choose() costs nanoseconds.
class AllreduceSelector {
 public:
  // `share_memory` is Transport::hosts_share_memory(). `offered` are the candidates. Fails when
  // options.algorithm is impossible in this topology or not deterministic although the options ask
  // for that (kPrecondition), or not offered (kUnavailable).
  static Result<AllreduceSelector> make(const Topology& topology, bool share_memory,
                                        const AllreduceOptions& options,
                                        std::span<const AllreduceAlgorithm> offered);

  // The candidate with the lowest cost for a buffer of `bytes` bytes; never kAuto.
  AllreduceAlgorithm choose(size_t bytes) const;

 private:
  struct Candidate {
    AllreduceAlgorithm algorithm;
    Cost cost;
  };
  std::array<Candidate, 8> candidates_;
  int count_ = 0;
};

}  // namespace hvd
