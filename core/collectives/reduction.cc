// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduction.h"

#include <fmt/format.h>

namespace hvd {

namespace {

kernels::Combine combine_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin: return kernels::Combine::kMin;
    case ReduceOp::kMax: return kernels::Combine::kMax;
    case ReduceOp::kProduct: return kernels::Combine::kProduct;
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum: break;
  }
  return kernels::Combine::kSum;
}

}  // namespace

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage: return "Average";
    case ReduceOp::kSum: return "Sum";
    case ReduceOp::kAdasum: return "Adasum";
    case ReduceOp::kMin: return "Min";
    case ReduceOp::kMax: return "Max";
    case ReduceOp::kProduct: return "Product";
  }
  return "unknown op";
}

Result<Reduction> Reduction::make(ReduceOp op, DType dtype, int ranks, double prescale,
                                  double postscale) {
  if (op == ReduceOp::kAdasum) {
    return invalid_argument("Adasum is not an elementwise reduction: call adasum() instead");
  }
  if (ranks < 1) {
    return invalid_argument(
        fmt::format("{} over {} ranks: at least one is needed", to_string(op), ranks));
  }
  Reduction reduction;
  reduction.dtype_ = dtype;
  reduction.element_size_ = size_of(dtype);
  reduction.prescale_ = prescale;
  reduction.postscale_ = postscale;
  reduction.divisor_ = op == ReduceOp::kAverage ? static_cast<uint64_t>(ranks) : 1;
  reduction.combine_ = kernels::combine_fn(combine_of(op), dtype);
  return reduction;
}

void Reduction::prepare(Bytes data) const {
  if (needs_prepare()) kernels::scale(dtype_, data.data(), data.size() / element_size_, prescale_);
}

void Reduction::combine(Bytes into, ConstBytes from) const {
  const std::byte* const in[2] = {into.data(), from.data()};
  combine_(into.data(), in, 2, into.size() / element_size_);
}

void Reduction::combine_all(Bytes out, std::span<const std::byte* const> in) const {
  combine_(out.data(), in.data(), in.size(), out.size() / element_size_);
}

void Reduction::finish(Bytes data) const {
  const size_t count = data.size() / element_size_;
  if (divisor_ != 1) kernels::divide(dtype_, data.data(), count, divisor_);
  if (postscale_ != 1.0) kernels::scale(dtype_, data.data(), count, postscale_);
}

Reduction Reduction::without_prepare() const {
  Reduction stage = *this;
  stage.prescale_ = 1.0;
  return stage;
}

Reduction Reduction::combine_only() const {
  Reduction stage = without_prepare();
  stage.postscale_ = 1.0;
  stage.divisor_ = 1;
  return stage;
}

}  // namespace hvd
