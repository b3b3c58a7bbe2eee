// SPDX-License-Identifier: Apache-2.0
// Sum, Min, Max and Product of floats: one pass over all inputs, accumulated in registers. The
// 16-bit floats are converted to float32 on load and rounded once, on store.
#include "collectives/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/kernels/combine_float.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file once per instruction set.
#include "collectives/kernels/combine.h"
#include "collectives/kernels/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hvd::kernels::HWY_NAMESPACE {

struct SumOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct ProductOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};
// Written with comparisons, because the min and max instructions of x86 and Arm treat NaN
// differently. A comparison with NaN is false, so a NaN in `a` stays; IsNaN selects a NaN in `b`.
struct MinOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::IsNaN(b), b, hn::IfThenElse(hn::Lt(b, a), b, a));
  }
};
struct MaxOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::IsNaN(b), b, hn::IfThenElse(hn::Lt(a, b), b, a));
  }
};

// Combines whole groups of four Values from element `begin` on and returns the first element that
// is left. Four Values are in flight to hide the latency of the arithmetic. kInputs is the number
// of inputs, or 0 when it is known only at run time.
template <class Lanes, class Op, size_t kInputs, class Element = typename Lanes::Element>
HWY_INLINE size_t combine_groups(Element* out, const Element* const* in, size_t inputs,
                                 size_t begin, size_t count) {
  constexpr size_t kStep = Lanes::kElements;
  const Op op;
  const size_t last = kInputs != 0 ? kInputs : inputs;
  size_t i = begin;
  for (; i + 4 * kStep <= count; i += 4 * kStep) {
    auto sum0 = Lanes::load(in[0] + i);
    auto sum1 = Lanes::load(in[0] + i + kStep);
    auto sum2 = Lanes::load(in[0] + i + 2 * kStep);
    auto sum3 = Lanes::load(in[0] + i + 3 * kStep);
    for (size_t k = 1; k < last; ++k) {
      const Element* next = in[k] + i;
      sum0 = each(op, sum0, Lanes::load(next));
      sum1 = each(op, sum1, Lanes::load(next + kStep));
      sum2 = each(op, sum2, Lanes::load(next + 2 * kStep));
      sum3 = each(op, sum3, Lanes::load(next + 3 * kStep));
    }
    Lanes::store(sum0, out + i);
    Lanes::store(sum1, out + i + kStep);
    Lanes::store(sum2, out + i + 2 * kStep);
    Lanes::store(sum3, out + i + 3 * kStep);
  }
  return i;
}

// The same one Value at a time: for the rest of the body, and with one-lane Values for the tail.
template <class Lanes, class Op, class Element = typename Lanes::Element>
HWY_INLINE size_t combine_singly(Element* out, const Element* const* in, size_t inputs,
                                 size_t begin, size_t count) {
  const Op op;
  size_t i = begin;
  for (; i + Lanes::kElements <= count; i += Lanes::kElements) {
    auto sum = Lanes::load(in[0] + i);
    for (size_t k = 1; k < inputs; ++k) sum = each(op, sum, Lanes::load(in[k] + i));
    Lanes::store(sum, out + i);
  }
  return i;
}

template <class Dtype, class Op>
void combine_floats(std::byte* out_bytes, const std::byte* const* in_bytes, size_t inputs,
                    size_t count) {
  using Element = typename Dtype::Element;
  using Body = typename Dtype::Body;
  auto* out = reinterpret_cast<Element*>(out_bytes);
  size_t done = 0;
  if (inputs == 2) {
    const Element* in[2] = {reinterpret_cast<const Element*>(in_bytes[0]),
                            reinterpret_cast<const Element*>(in_bytes[1])};
    done = combine_groups<Body, Op, 2>(out, in, 2, 0, count);
    done = combine_singly<Body, Op>(out, in, 2, done, count);
    combine_singly<typename Dtype::Tail, Op>(out, in, 2, done, count);
    return;
  }
  const auto* in = reinterpret_cast<const Element* const*>(in_bytes);
  done = combine_groups<Body, Op, 0>(out, in, inputs, 0, count);
  done = combine_singly<Body, Op>(out, in, inputs, done, count);
  combine_singly<typename Dtype::Tail, Op>(out, in, inputs, done, count);
}

template <class Dtype>
CombineFn choose_float_op(Combine combine) {
  switch (combine) {
    case Combine::kSum: return combine_floats<Dtype, SumOp>;
    case Combine::kMin: return combine_floats<Dtype, MinOp>;
    case Combine::kMax: return combine_floats<Dtype, MaxOp>;
    case Combine::kProduct: return combine_floats<Dtype, ProductOp>;
  }
  return nullptr;
}

CombineFn choose_float(Combine combine, DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return choose_float_op<Float64Form>(combine);
    case DType::kFloat32: return choose_float_op<Float32Form>(combine);
    case DType::kFloat16: return choose_float_op<Float16Form>(combine);
    case DType::kBfloat16: return choose_float_op<Bfloat16Form>(combine);
    default: return nullptr;
  }
}

}  // namespace hvd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hvd::kernels {

HWY_EXPORT(choose_float);

CombineFn float_combine_fn(Combine combine, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(choose_float)(combine, dtype);
}

}  // namespace hvd::kernels
#endif
