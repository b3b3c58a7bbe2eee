// SPDX-License-Identifier: Apache-2.0
// Reduction: the arithmetic of one allreduce or reducescatter, resolved once per operation from op,
// dtype and factors:
//
//   result = postscale · (prescale · x0 ∘ prescale · x1 ∘ …), divided by the number of ranks for
//            Average
//
// An algorithm calls prepare() once on its own input, combine() in any grouping, and finish()
// exactly once per element of the result. Most algorithms call finish() after the reduce-scatter
// phase, when each rank owns 1/n of the elements, so that Average costs 1/n of a pass over the
// buffer.
//
// A small value without memory of its own; const calls are safe from any thread. Buffers are whole
// elements and aligned to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/status.h"
#include "collectives/kernels/kernels.h"

namespace hvd {

// The numbers are those of the Python API (hvd.Average and so on) and must not change.
enum class ReduceOp : uint8_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5,
};

std::string_view to_string(ReduceOp op);

class Reduction {
 public:
  // `ranks`, at least 1, is the divisor of Average. kInvalidArgument for Adasum, which is not an
  // elementwise reduction (adasum.h), and for ranks < 1.
  static Result<Reduction> make(ReduceOp op, DType dtype, int ranks, double prescale = 1.0,
                                double postscale = 1.0);

  DType dtype() const { return dtype_; }
  size_t element_size() const { return element_size_; }

  // Scales an input in place; does nothing when the factor is 1.
  void prepare(Bytes data) const;
  bool needs_prepare() const { return prescale_ != 1.0; }

  // into = into ∘ from. The sizes are equal.
  void combine(Bytes into, ConstBytes from) const;
  // out = in[0] ∘ in[1] ∘ …, each of out.size() bytes, with one rounding for the 16-bit floats.
  void combine_all(Bytes out, std::span<const std::byte* const> in) const;

  // Applies Average's division and postscale in place.
  void finish(Bytes data) const;
  bool needs_finish() const { return divisor_ != 1 || postscale_ != 1.0; }

  // This reduction without prepare(), and without prepare() and finish(): for the stages of an
  // algorithm that reduces in several stages (two_level.cc).
  Reduction without_prepare() const;
  Reduction combine_only() const;

 private:
  Reduction() = default;
  DType dtype_ = DType::kFloat32;
  size_t element_size_ = 4;
  double prescale_ = 1.0;
  double postscale_ = 1.0;
  uint64_t divisor_ = 1;
  kernels::CombineFn combine_ = nullptr;
};

}  // namespace hvd
