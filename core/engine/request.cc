// SPDX-License-Identifier: Apache-2.0
#include "engine/request.h"

#include <fmt/format.h>

#include <bit>

namespace hvd {
namespace {

// Limits of decode(): a malformed message must not cost memory without bounds.
constexpr size_t kMostDimensions = 4096;  // a process set lists its ranks as dimensions
constexpr size_t kLongestName = 64 << 10;

// The common sentence of all mismatches.
template <typename T>
Status mismatch(std::string_view what, const Request& a, int rank_a, const T& value_a, int rank_b,
                const T& value_b) {
  return precondition(fmt::format("Mismatched {}: {} \"{}\": rank {} has {}, rank {} has {}", what,
                                  to_string(a.type), a.name, rank_a, value_a, rank_b, value_b));
}

bool reduces(RequestType type) {
  return type == RequestType::kAllreduce || type == RequestType::kAdasum ||
         type == RequestType::kReducescatter;
}

std::string device_name(int32_t device) {
  return device == kHostDevice ? "host memory" : fmt::format("GPU {}", device);
}

Status compare_shapes(const Request& a, int rank_a, const Request& b, int rank_b) {
  if (a.shape == b.shape) return Status::ok();
  if (a.type == RequestType::kAddProcessSet || a.type == RequestType::kRemoveProcessSet) {
    return mismatch("process sets", a, rank_a, to_string(a.shape), rank_b, to_string(b.shape));
  }
  if (!has_free_first_dimension(a.type)) {
    return mismatch("shapes", a, rank_a, to_string(a.shape), rank_b, to_string(b.shape));
  }
  if (a.shape.size() != b.shape.size()) {
    return mismatch("numbers of dimensions", a, rank_a, to_string(a.shape), rank_b,
                    to_string(b.shape));
  }
  for (size_t i = 1; i < a.shape.size(); ++i) {
    if (a.shape[i] != b.shape[i]) {
      return mismatch(fmt::format("shapes (only dimension 0 may differ, dimension {} does)", i), a,
                      rank_a, to_string(a.shape), rank_b, to_string(b.shape));
    }
  }
  return Status::ok();
}

void put_double(double value, Encoder& out) { out.put(std::bit_cast<uint64_t>(value)); }

Status get_double(Decoder& in, double& value) {
  uint64_t bits = 0;
  HVD_TRY(in.get(bits));
  value = std::bit_cast<double>(bits);
  return Status::ok();
}

template <typename E>
Status get_enum(Decoder& in, int count, std::string_view what, E& value) {
  uint8_t number = 0;
  HVD_TRY(in.get(number));
  if (number >= count)
    return invalid_argument(fmt::format("malformed message: {} {}", what, number));
  value = static_cast<E>(number);
  return Status::ok();
}

}  // namespace

std::string_view to_string(RequestType type) {
  switch (type) {
    case RequestType::kAllreduce: return "allreduce";
    case RequestType::kAllgather: return "allgather";
    case RequestType::kBroadcast: return "broadcast";
    case RequestType::kAdasum: return "adasum";
    case RequestType::kAlltoall: return "alltoall";
    case RequestType::kBarrier: return "barrier";
    case RequestType::kReducescatter: return "reducescatter";
    case RequestType::kAddProcessSet: return "add_process_set";
    case RequestType::kRemoveProcessSet: return "remove_process_set";
  }
  return "unknown request";
}

int64_t elements_of(const Shape& shape) {
  int64_t elements = 1;
  for (const int64_t dimension : shape) elements *= dimension;
  return elements;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Reports only the first difference, in this order: dtype, operation, shape, scale factors, op,
// root, device.
Status compare(const Request& a, int rank_a, const Request& b, int rank_b) {
  if (a.dtype != b.dtype) {
    return mismatch("data types", a, rank_a, to_string(a.dtype), rank_b, to_string(b.dtype));
  }
  if (a.type != b.type) {
    return precondition(
        fmt::format("Mismatched operations: \"{}\": rank {} does {}, rank {} does {}", a.name,
                    rank_a, to_string(a.type), rank_b, to_string(b.type)));
  }
  HVD_TRY(compare_shapes(a, rank_a, b, rank_b));
  if (reduces(a.type)) {
    if (a.prescale != b.prescale) {
      return mismatch("prescale factors", a, rank_a, a.prescale, rank_b, b.prescale);
    }
    if (a.postscale != b.postscale) {
      return mismatch("postscale factors", a, rank_a, a.postscale, rank_b, b.postscale);
    }
    if (a.op != b.op) {
      return mismatch("reduction ops", a, rank_a, to_string(a.op), rank_b, to_string(b.op));
    }
  }
  if (a.type == RequestType::kBroadcast && a.root != b.root) {
    return mismatch("root ranks", a, rank_a, a.root, rank_b, b.root);
  }
  if (a.device != b.device) {
    return mismatch("devices", a, rank_a, device_name(a.device), rank_b, device_name(b.device));
  }
  return Status::ok();
}

Status validate(const Request& request) {
  const bool needs_rows =
      has_free_first_dimension(request.type) || request.type == RequestType::kReducescatter;
  if (needs_rows && request.shape.empty()) {
    return precondition(
        fmt::format("{} \"{}\": a scalar has no first dimension to divide; reshape "
                    "it to [1]",
                    to_string(request.type), request.name));
  }
  return Status::ok();
}

void encode(const Request& request, Encoder& out) {
  out.put(request.name)
      .put(static_cast<uint8_t>(request.type))
      .put(static_cast<uint8_t>(request.dtype))
      .put(static_cast<uint8_t>(request.op))
      .put(request.root)
      .put(request.device);
  put_double(request.prescale, out);
  put_double(request.postscale, out);
  out.put(request.shape);
}

Status decode(Decoder& in, Request& request) {
  HVD_TRY(in.get(request.name));
  if (request.name.size() > kLongestName) return invalid_argument("malformed message: long name");
  HVD_TRY(get_enum(in, kRequestTypeCount, "request type", request.type));
  HVD_TRY(get_enum(in, kDTypeCount, "dtype", request.dtype));
  HVD_TRY(get_enum(in, 6, "reduction op", request.op));
  HVD_TRY(in.get(request.root));
  HVD_TRY(in.get(request.device));
  HVD_TRY(get_double(in, request.prescale));
  HVD_TRY(get_double(in, request.postscale));
  HVD_TRY(in.get(request.shape));
  if (request.shape.size() > kMostDimensions) return invalid_argument("malformed message: shape");
  for (const int64_t dimension : request.shape) {
    if (dimension < 0) return invalid_argument("malformed message: negative dimension");
  }
  return Status::ok();
}

}  // namespace hvd
