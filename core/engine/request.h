// SPDX-License-Identifier: Apache-2.0
// A request: a rank asks for one collective on one tensor. The ranks agree on requests before any
// data moves. Request and Response are parts of messages between ranks; messages.h shows their
// layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "collectives/reduction.h"
#include "net/codec.h"

namespace hvd {

// The values travel between ranks.
enum class RequestType : uint8_t {
  kAllreduce = 0,
  kAllgather = 1,
  kBroadcast = 2,
  kAdasum = 3,
  kAlltoall = 4,
  kBarrier = 5,
  kReducescatter = 6,
  kAddProcessSet = 7,     // `shape` holds the ranks of the new set
  kRemoveProcessSet = 8,  // `shape` holds the id of the set
};
inline constexpr int kRequestTypeCount = 9;

// "allreduce", for messages to users.
std::string_view to_string(RequestType type);

using Shape = std::vector<int64_t>;
int64_t elements_of(const Shape& shape);
// "[64, 3]".
std::string to_string(const Shape& shape);

inline constexpr int32_t kHostDevice = -1;

struct Request {
  std::string name;
  RequestType type = RequestType::kAllreduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int32_t root = -1;             // of a broadcast: a rank of the job
  int32_t device = kHostDevice;  // or the index of a GPU
  double prescale = 1.0;
  double postscale = 1.0;
  Shape shape;

  size_t bytes() const { return static_cast<size_t>(elements_of(shape)) * size_of(dtype); }
  bool operator==(const Request&) const = default;
};

// Whether the first dimension may differ between ranks, and between two uses of a name.
constexpr bool has_free_first_dimension(RequestType type) {
  return type == RequestType::kAllgather || type == RequestType::kAlltoall;
}

// Ok if `a` of rank `rank_a` and `b` of rank `rank_b`, which have the same name, can be one
// operation. Otherwise the text contains the tensor, both ranks and the two values that differ.
Status compare(const Request& a, int rank_a, const Request& b, int rank_b);

// Ok, or the reason why no rank can carry out `request`.
Status validate(const Request& request);

void encode(const Request& request, Encoder& out);
// Refuses bytes that encode() cannot have written: unknown types, negative dimensions, more than
// 4096 dimensions, names of more than 64 KiB.
Status decode(Decoder& in, Request& request);

// What all ranks have agreed on for one tensor.
struct Response {
  Request request;                        // equal on all ranks, except free first dimensions
  std::vector<int64_t> first_dimensions;  // of an allgather: by rank of the set
  Status error;                           // not ok: the tensor fails with this on all ranks
};

}  // namespace hvd
