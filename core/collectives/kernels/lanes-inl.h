// SPDX-License-Identifier: Apache-2.0
// Loads and stores of each floating dtype between memory and vectors. Included once per instruction
// set through foreach_target.h.
//
// A Lanes type has Element (the type in memory), Value (the type in registers), kElements (elements
// per Value), load and store. The value computed for an element is the same for every number of
// lanes, so a kernel processes the tail of an array element by element with the one-lane form of
// the type that its body uses.
#if defined(HVD_COLLECTIVES_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HVD_COLLECTIVES_KERNELS_LANES_INL_H_
#undef HVD_COLLECTIVES_KERNELS_LANES_INL_H_
#else
#define HVD_COLLECTIVES_KERNELS_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hvd::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// float32 and float64: the same type in memory and in registers.
template <class D>
struct Native {
  using Element = hn::TFromD<D>;
  using Value = hn::Vec<D>;
  static constexpr size_t kElements = hn::MaxLanes(D());
  static HWY_INLINE Value load(const Element* from) { return hn::LoadU(D(), from); }
  static HWY_INLINE void store(Value value, Element* to) { hn::StoreU(value, D(), to); }
};

// 1 where Highway's float16 conversion is an instruction. Its emulation on other targets truncates
// and loses infinities, so those use the conversion below.
#undef HVD_NATIVE_FLOAT16
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
#define HVD_NATIVE_FLOAT16 1
#else
#define HVD_NATIVE_FLOAT16 0
#endif

// float16 as float32, where D is a tag of float.
template <class D>
struct Half {
  using Element = uint16_t;
  using Value = hn::Vec<D>;
  static constexpr size_t kElements = hn::MaxLanes(D());

#if HVD_NATIVE_FLOAT16
  using D16 = hn::Rebind<hwy::float16_t, D>;
  static HWY_INLINE Value load(const Element* from) {
    return hn::PromoteTo(D(), hn::LoadU(D16(), reinterpret_cast<const hwy::float16_t*>(from)));
  }
  static HWY_INLINE void store(Value value, Element* to) {
    hn::StoreU(hn::DemoteTo(D16(), value), D16(), reinterpret_cast<hwy::float16_t*>(to));
  }
#else
  using D16 = hn::Rebind<uint16_t, D>;
  using D32 = hn::Rebind<int32_t, D>;
  static constexpr int32_t kInfinity = 0x7F800000;

  // The bias of the exponent grows by 127 - 15; infinity and NaN need that twice. A subnormal
  // becomes the mantissa of a number with exponent 2^-14, which is then subtracted.
  static HWY_INLINE Value load(const Element* from) {
    const D32 d;
    const auto bits = hn::PromoteTo(d, hn::LoadU(D16(), from));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d, 0x7FFF)));
    const auto exponent = hn::And(magnitude, hn::Set(d, 0x1F << 23));
    const auto rebias = hn::Set(d, (127 - 15) << 23);
    const auto normal = hn::Add(magnitude, rebias);
    const auto special = hn::Add(normal, rebias);
    const auto smallest = hn::Set(d, (127 - 14) << 23);
    const auto subnormal = hn::BitCast(
        d, hn::Sub(hn::BitCast(D(), hn::Add(magnitude, smallest)), hn::BitCast(D(), smallest)));
    auto result = hn::IfThenElse(hn::Eq(exponent, hn::Zero(d)), subnormal, normal);
    result = hn::IfThenElse(hn::Eq(exponent, hn::Set(d, 0x1F << 23)), special, result);
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d, 0x8000)));
    return hn::BitCast(D(), hn::Or(result, sign));
  }

  // Rounds to nearest even. A normal number by an integer addition, which may carry into the
  // exponent (and from the largest number to infinity). A subnormal by the float addition of 0.5,
  // whose last place is that of the smallest float16.
  static HWY_INLINE void store(Value value, Element* to) {
    const D32 d;
    const auto bits = hn::BitCast(d, value);
    const auto magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFF));
    const auto last_place = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
    const auto rounding = hn::Add(last_place, hn::Set(d, 0xFFF - ((127 - 15) << 23)));
    const auto normal = hn::ShiftRight<13>(hn::Add(magnitude, rounding));
    const auto half = hn::Set(d, 126 << 23);
    const auto subnormal =
        hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(D(), magnitude), hn::BitCast(D(), half))), half);
    const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 0x3FF));
    const auto nan = hn::Or(payload, hn::Set(d, 0x7E00));
    auto result =
        hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, (127 - 14) << 23)), subnormal, normal);
    result =
        hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, (127 + 16) << 23)), result, hn::Set(d, 0x7C00));
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, kInfinity)), nan, result);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000));
    hn::StoreU(hn::DemoteTo(D16(), hn::Or(result, sign)), D16(), to);
  }
#endif
};

// The bits of `value`, rounded to nearest even at bit 16. A NaN stays unchanged, because the
// addition could carry it into another number. Its upper half is still a NaN: a NaN is either the
// result of arithmetic, which is quiet, or was a bfloat16, whose payload is in the upper half.
template <class V, class D = hn::DFromV<V>, class D32 = hn::RebindToUnsigned<D>>
HWY_INLINE hn::Vec<D32> round_to_bfloat16(V value) {
  const D32 d;
  const auto bits = hn::BitCast(d, value);
  const auto last_place = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounding = hn::Add(last_place, hn::Set(d, 0x7FFF));
  const auto is_nan = hn::VecFromMask(d, hn::RebindMask(d, hn::IsNaN(value)));
  return hn::Add(bits, hn::AndNot(is_nan, rounding));
}

// bfloat16 as float32, where D is a tag of float.
template <class D>
struct Brain {
  using Element = uint16_t;
  using Value = hn::Vec<D>;
  static constexpr size_t kElements = hn::MaxLanes(D());
  using D16 = hn::Rebind<uint16_t, D>;
  using D32 = hn::Rebind<uint32_t, D>;

  static HWY_INLINE Value load(const Element* from) {
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(D32(), hn::LoadU(D16(), from))));
  }
  static HWY_INLINE void store(Value value, Element* to) {
    const auto bits = hn::ShiftRight<16>(round_to_bfloat16(value));
    hn::StoreU(hn::DemoteTo(D16(), hn::BitCast(hn::RebindToSigned<D>(), bits)), D16(), to);
  }
};

template <class V>
struct Pair {
  V even;
  V odd;
};

#if HWY_TARGET != HWY_SCALAR
// bfloat16 as two vectors of float32, one of the even and one of the odd elements. A shift and a
// mask separate them and one blend joins them, which is 1.7 times as fast as widening and
// narrowing.
template <class D>
struct BrainPairs {
  using Element = uint16_t;
  using Value = Pair<hn::Vec<D>>;
  static constexpr size_t kElements = 2 * hn::MaxLanes(D());
  using D16 = hn::Repartition<uint16_t, D>;
  using D32 = hn::RebindToUnsigned<D>;

  static HWY_INLINE Value load(const Element* from) {
    const auto bits = hn::BitCast(D32(), hn::LoadU(D16(), from));
    return {hn::BitCast(D(), hn::ShiftLeft<16>(bits)),
            hn::BitCast(D(), hn::And(bits, hn::Set(D32(), 0xFFFF0000u)))};
  }
  static HWY_INLINE void store(Value value, Element* to) {
    const auto even = hn::ShiftRight<16>(round_to_bfloat16(value.even));
    const auto odd = round_to_bfloat16(value.odd);
    hn::StoreU(hn::OddEven(hn::BitCast(D16(), odd), hn::BitCast(D16(), even)), D16(), to);
  }
};
#endif

// The elements of `Narrow`, a Lanes type with float32 Values, as float64.
template <class Narrow, class D>
struct Widened {
  using Element = typename Narrow::Element;
  using Value = hn::Vec<D>;
  static constexpr size_t kElements = hn::MaxLanes(D());
  static_assert(kElements == Narrow::kElements);

  static HWY_INLINE Value load(const Element* from) {
    return hn::PromoteTo(D(), Narrow::load(from));
  }
  static HWY_INLINE void store(Value value, Element* to) {
    Narrow::store(hn::DemoteTo(hn::Rebind<float, D>(), value), to);
  }
};

// A dtype's Lanes for the body of an array and for its tail.
template <class BodyLanes, class TailLanes>
struct Form {
  using Body = BodyLanes;
  using Tail = TailLanes;
  using Element = typename Body::Element;
  static_assert(Tail::kElements == 1);
};

using FullFloat = hn::ScalableTag<float>;
using FullDouble = hn::ScalableTag<double>;
using OneFloat = hn::CappedTag<float, 1>;
using OneDouble = hn::CappedTag<double, 1>;
using HalfFloat = hn::Rebind<float, FullDouble>;  // as many lanes as a vector has doubles

using Float64Form = Form<Native<FullDouble>, Native<OneDouble>>;
using Float32Form = Form<Native<FullFloat>, Native<OneFloat>>;
using Float16Form = Form<Half<FullFloat>, Half<OneFloat>>;
#if HWY_TARGET == HWY_SCALAR
using Bfloat16Form = Form<Brain<FullFloat>, Brain<OneFloat>>;
#else
using Bfloat16Form = Form<BrainPairs<FullFloat>, Brain<OneFloat>>;
#endif
using Float32AsDouble =
    Form<Widened<Native<HalfFloat>, FullDouble>, Widened<Native<OneFloat>, OneDouble>>;
using Float16AsDouble =
    Form<Widened<Half<HalfFloat>, FullDouble>, Widened<Half<OneFloat>, OneDouble>>;
using Bfloat16AsDouble =
    Form<Widened<Brain<HalfFloat>, FullDouble>, Widened<Brain<OneFloat>, OneDouble>>;

// Applies op to a vector, or to both vectors of a pair.
template <class Op, class V>
HWY_INLINE V each(const Op& op, V a) {
  return op(a);
}
template <class Op, class V>
HWY_INLINE Pair<V> each(const Op& op, Pair<V> a) {
  return {op(a.even), op(a.odd)};
}
template <class Op, class V>
HWY_INLINE V each(const Op& op, V a, V b) {
  return op(a, b);
}
template <class Op, class V>
HWY_INLINE Pair<V> each(const Op& op, Pair<V> a, Pair<V> b) {
  return {op(a.even, b.even), op(a.odd, b.odd)};
}

}  // namespace hvd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
