// SPDX-License-Identifier: Apache-2.0
// What a rank asks for: one tensor, one collective. Ranks agree on requests before anything moves.
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

// The numbers travel between ranks.
enum class RequestType : uint8_t {
  kAllreduce = 0,
  kAllgather = 1,
  kBroadcast = 2,
  kAdasum = 3,
  kAlltoall = 4,
  kBarrier = 5,
  kReducescatter = 6,
  kAddProcessSet = 7,  // `shape` holds the ranks
  kRemoveProcessSet = 8,
};
inline constexpr int kRequestTypeCount = 9;

// "allreduce", as messages to users say it.
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
  int32_t root = -1;  // of a broadcast: a rank of the job
  int32_t device = kHostDevice;
  double prescale = 1.0;
  double postscale = 1.0;
  Shape shape;

  size_t bytes() const { return static_cast<size_t>(elements_of(shape)) * size_of(dtype); }
  bool operator==(const Request&) const = default;
};

// Whether only the first dimension may differ between ranks, or between two uses of a name.
constexpr bool has_free_first_dimension(RequestType type) {
  return type == RequestType::kAllgather || type == RequestType::kAlltoall;
}

// Why `a` of rank `rank_a` and `b` of rank `rank_b`, which have one name, cannot be one operation;
// ok if they can. The text names the tensor, both ranks and both values.
Status compare(const Request& a, int rank_a, const Request& b, int rank_b);

// Why no rank could carry out `request`; ok if all can.
Status validate(const Request& request);

void encode(const Request& request, Encoder& out);
// Refuses what no rank can have sent: unknown types, negative dimensions, too many of them.
Status decode(Decoder& in, Request& request);

// What all ranks have agreed on.
struct Response {
  Request request;                        // equal on all ranks, but for free first dimensions
  std::vector<int64_t> first_dimensions;  // of an allgather: by rank of the set
  Status error;                           // ranks disagree: everybody fails the tensor with this
};

}  // namespace hvd
