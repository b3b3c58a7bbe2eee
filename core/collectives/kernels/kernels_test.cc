// SPDX-License-Identifier: Apache-2.0
// Every test runs on every instruction set that the machine has, by disabling the better ones.
#include "collectives/kernels/kernels.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "collectives/kernels/targets.h"
#include "collectives/testing/reference.h"
// After targets.h, which defines the compiled instruction sets.
#include "hwy/highway.h"

namespace hvd::kernels {
namespace {

using hvd::testing::near;
using hvd::testing::random_values;
using hvd::testing::reference_combine;
using hvd::testing::reference_divide;
using hvd::testing::reference_scale;
using hvd::testing::same;
using hvd::testing::Values;

constexpr Combine kCombines[] = {Combine::kSum, Combine::kMin, Combine::kMax, Combine::kProduct};
constexpr DType kFloats[] = {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64};

std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

std::vector<int64_t> usable_targets() {
  std::vector<int64_t> usable;
  for (int64_t rest = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & HWY_TARGETS; rest != 0;
       rest &= rest - 1) {
    usable.push_back(rest & -rest);
  }
  return usable;
}

class Kernels : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(GetParam());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
};

INSTANTIATE_TEST_SUITE_P(Targets, Kernels, ::testing::ValuesIn(usable_targets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

template <typename T>
Values values_of(const std::vector<T>& elements) {
  Values bytes(elements.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> elements_of(const Values& bytes) {
  std::vector<T> elements(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

// An array of `count` elements that begins `offset` elements after a 64-byte boundary. A guard
// behind it detects writes beyond the end.
class Placed {
 public:
  Placed(DType dtype, size_t count, size_t offset)
      : size_(count * size_of(dtype)), bytes_(size_ + 64 + offset * size_of(dtype) + kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    start_ = round_up(address, 64) - address + offset * size_of(dtype);
    std::memset(bytes_.data(), kPattern, bytes_.size());
  }
  Placed(DType dtype, const Values& values, size_t offset)
      : Placed(dtype, values.size() / size_of(dtype), offset) {
    if (size_ != 0) std::memcpy(data(), values.data(), size_);
  }
  std::byte* data() { return bytes_.data() + start_; }
  Bytes span() { return {data(), size_}; }
  bool guard_intact() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (i >= start_ && i < start_ + size_) continue;
      if (bytes_[i] != std::byte{kPattern}) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr unsigned char kPattern = 0xA5;
  size_t size_;
  Values bytes_;
  size_t start_ = 0;
};

// Combines `in`, each placed at another offset, into a fresh array or (alias >= 0) into in[alias].
void expect_combined(Combine combine, DType dtype, const std::vector<Values>& in, size_t offset,
                     int alias, const Values& expected) {
  std::vector<Placed> placed;
  std::vector<const std::byte*> pointers;
  placed.reserve(in.size());
  for (size_t k = 0; k < in.size(); ++k) {
    placed.emplace_back(dtype, in[k], (offset + k) % 8);
    pointers.push_back(placed.back().data());
  }
  Placed fresh(dtype, in[0].size() / size_of(dtype), (offset + 3) % 8);
  Placed& out = alias < 0 ? fresh : placed[static_cast<size_t>(alias)];
  combine_fn(combine, dtype)(out.data(), pointers.data(), in.size(), in[0].size() / size_of(dtype));
  EXPECT_TRUE(same(dtype, out.span(), expected))
      << "combine " << static_cast<int>(combine) << ", " << in.size() << " inputs, offset "
      << offset << ", alias " << alias;
  EXPECT_TRUE(out.guard_intact());
}

TEST_P(Kernels, CombineEqualsTheReferenceAtEveryPlaceAndInPlace) {
  for (const DType dtype : all_dtypes()) {
    for (const size_t inputs : {1, 2, 3, 5, 8}) {
      for (const size_t count : {0, 1, 7, 64, 1003}) {
        std::vector<Values> in;
        for (size_t k = 0; k < inputs; ++k)
          in.push_back(random_values(dtype, count, 100 * k + count));
        for (const Combine combine : kCombines) {
          const Values expected = reference_combine(combine, dtype, in);
          expect_combined(combine, dtype, in, 0, -1, expected);
          expect_combined(combine, dtype, in, 1, -1, expected);
          expect_combined(combine, dtype, in, 5, 0, expected);
          expect_combined(combine, dtype, in, 2, static_cast<int>(inputs) - 1, expected);
        }
      }
    }
  }
}

// Arbitrary bit patterns: every exponent, subnormals, infinities and NaNs of all kinds.
Values any_bits(DType dtype, size_t count, uint64_t seed) {
  Values bits = random_values(DType::kUint64, (count * size_of(dtype) + 7) / 8, seed);
  bits.resize(count * size_of(dtype));
  return bits;
}

TEST_P(Kernels, BitsOfAnElementDoNotDependOnItsPlace) {
  constexpr size_t kCount = 150;
  for (const DType dtype : kFloats) {
    const std::vector<Values> in = {any_bits(dtype, kCount, 1), any_bits(dtype, kCount, 2),
                                    any_bits(dtype, kCount, 3)};
    for (const Combine combine : kCombines) {
      for (const size_t inputs : {2, 3}) {
        const std::span<const Values> used(in.data(), inputs);
        const Values expected = reference_combine(combine, dtype, used);
        for (size_t first = 0; first < kCount; ++first) {
          const size_t skip = first * size_of(dtype);
          std::vector<Values> part;
          for (const Values& values : used) part.emplace_back(values.begin() + skip, values.end());
          expect_combined(combine, dtype, part, first % 8, -1,
                          Values(expected.begin() + skip, expected.end()));
        }
      }
    }
  }
}

// All 65536 bit patterns, in pairs with themselves, their neighbours and far away ones.
TEST_P(Kernels, SixteenBitFloatsAreExactForEveryBitPattern) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const Values every = values_of(all);
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    const uint16_t one = dtype == DType::kFloat16 ? 0x3C00 : 0x3F80;
    const Values ones = values_of(std::vector<uint16_t>(all.size(), one));
    expect_combined(Combine::kSum, dtype, {every}, 0, -1, every);
    expect_combined(Combine::kProduct, dtype, {every, ones}, 0, -1, every);
    expect_combined(Combine::kMin, dtype, {every, every}, 0, -1, every);
    for (const unsigned other : {1u, 0x3FFu, 0x1234u, 0x8000u, 0x8421u}) {
      std::vector<uint16_t> shifted(all.size());
      for (size_t i = 0; i < all.size(); ++i)
        shifted[i] = static_cast<uint16_t>(i * 40503u + other);
      const std::vector<Values> in = {every, values_of(shifted)};
      for (const Combine combine : kCombines) {
        expect_combined(combine, dtype, in, 0, -1, reference_combine(combine, dtype, in));
      }
    }
    for (const double factor : {0x1p-3, 1.0 / 3, 0x1.8p-9, 1e4, -1e-7, 0x1p-130}) {
      Values scaled = every;
      scale(dtype, scaled.data(), all.size(), factor);
      EXPECT_TRUE(same(dtype, scaled, reference_scale(dtype, every, factor))) << factor;
    }
    Values divided = every;
    divide(dtype, divided.data(), all.size(), 7);
    EXPECT_TRUE(same(dtype, divided, reference_divide(dtype, every, 7)));
  }
}

// One page between two inaccessible pages.
class Fenced {
 public:
  Fenced() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* mapped =
        mmap(nullptr, 3 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
    EXPECT_NE(mapped, MAP_FAILED);
    start_ = static_cast<std::byte*>(mapped) + page_;
    EXPECT_EQ(mprotect(start_, page_, PROT_READ | PROT_WRITE), 0);
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(start_ - page_, 3 * page_); }

  // `bytes` bytes at the page's start or end.
  std::byte* place(size_t bytes, bool at_end) { return at_end ? start_ + page_ - bytes : start_; }

 private:
  size_t page_;
  std::byte* start_;
};

TEST_P(Kernels, NeitherReadNorWriteOutsideTheirArrays) {
  Fenced first;
  Fenced second;
  Fenced third;
  for (const DType dtype : all_dtypes()) {
    for (size_t count = 1; count <= 140; ++count) {
      for (const bool at_end : {false, true}) {
        std::byte* a = first.place(count * size_of(dtype), at_end);
        std::byte* b = second.place(count * size_of(dtype), at_end);
        std::byte* out = third.place(count * size_of(dtype), at_end);
        const std::byte* const in[] = {a, b, a};
        for (const Combine combine : kCombines) {
          combine_fn(combine, dtype)(out, in, 2, count);
          combine_fn(combine, dtype)(out, in, 3, count);
        }
        scale(dtype, a, count, 0.5);
        divide(dtype, b, count, 3);
        if (is_floating(dtype)) {
          products(dtype, a, b, count);
          blend(dtype, out, a, 0.5, b, 0.5, count);
        }
      }
    }
  }
}

TEST_P(Kernels, RoundsOnceAfterAllInputs) {
  // 1 + 2^-11 alone is a tie and would round back to 1; two of them make the next float16.
  const Values one = values_of<uint16_t>({0x3C00});
  const Values tie = values_of<uint16_t>({0x1000});
  expect_combined(Combine::kSum, DType::kFloat16, {one, tie, tie}, 0, -1,
                  values_of<uint16_t>({0x3C01}));
  const Values b_one = values_of<uint16_t>({0x3F80});
  const Values b_tie = values_of<uint16_t>({0x3B80});  // 2^-8
  expect_combined(Combine::kSum, DType::kBfloat16, {b_one, b_tie, b_tie}, 0, -1,
                  values_of<uint16_t>({0x3F81}));
}

TEST_P(Kernels, MinAndMaxGiveNanFromAnyOperandAndKeepTheFirstOfEqualZeros) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Values a = values_of<float>({nan, 1, -0.0f, 0.0f, inf, -inf, nan});
  const Values b = values_of<float>({1, nan, 0.0f, -0.0f, -inf, nan, inf});
  expect_combined(Combine::kMin, DType::kFloat32, {a, b}, 0, -1,
                  values_of<float>({nan, nan, -0.0f, 0.0f, -inf, nan, nan}));
  expect_combined(Combine::kMax, DType::kFloat32, {a, b}, 0, -1,
                  values_of<float>({nan, nan, -0.0f, 0.0f, inf, nan, nan}));
  expect_combined(Combine::kSum, DType::kFloat32, {a, b}, 0, -1,
                  values_of<float>({nan, nan, 0.0f, 0.0f, nan, nan, nan}));
}

TEST_P(Kernels, AnyByteButZeroIsTrue) {
  const Values a = values_of<uint8_t>({0, 0, 2, 255, 1});
  const Values b = values_of<uint8_t>({0, 128, 0, 16, 2});
  const Values either = values_of<uint8_t>({0, 1, 1, 1, 1});
  const Values both = values_of<uint8_t>({0, 0, 0, 1, 1});
  expect_combined(Combine::kSum, DType::kBool, {a, b}, 0, -1, either);
  expect_combined(Combine::kMax, DType::kBool, {a, b}, 0, 0, either);
  expect_combined(Combine::kMin, DType::kBool, {a, b}, 0, -1, both);
  expect_combined(Combine::kProduct, DType::kBool, {a, b, b}, 0, 1, both);
  expect_combined(Combine::kSum, DType::kBool, {a}, 0, -1, values_of<uint8_t>({0, 0, 1, 1, 1}));
}

TEST_P(Kernels, ScaleAndDivideEqualTheReferenceForEveryDtypeAndLength) {
  for (const DType dtype : all_dtypes()) {
    for (const size_t count : {0, 1, 7, 64, 1003}) {
      const Values values =
          is_floating(dtype) ? any_bits(dtype, count, count) : random_values(dtype, count, count);
      for (const double factor : {0.0, 1.0 / 3, -0.75, 2.5, 1e30, std::nan("")}) {
        Placed data(dtype, values, 3);
        scale(dtype, data.data(), count, factor);
        EXPECT_TRUE(same(dtype, data.span(), reference_scale(dtype, values, factor)))
            << to_string(dtype) << " · " << factor;
        EXPECT_TRUE(data.guard_intact());
      }
      for (const uint64_t divisor : {uint64_t{1}, uint64_t{3}, uint64_t{49}, uint64_t{1000},
                                     uint64_t{1} << 40, ~uint64_t{0}}) {
        Placed data(dtype, values, 5);
        divide(dtype, data.data(), count, divisor);
        EXPECT_TRUE(same(dtype, data.span(), reference_divide(dtype, values, divisor)))
            << to_string(dtype) << " / " << divisor;
        EXPECT_TRUE(data.guard_intact());
      }
    }
  }
}

TEST_P(Kernels, IntegerQuotientsAreExactWhereAMultiplicationByTheInverseIsNot) {
  for (const uint64_t n : {49, 98, 103, 107, 161}) {
    std::vector<int32_t> small;
    std::vector<int64_t> large;
    for (int64_t k = -300; k <= 300; ++k) {
      small.push_back(static_cast<int32_t>(k * static_cast<int64_t>(n) + (k < 0 ? -1 : 1)));
      large.push_back((k + (int64_t{1} << 55)) * static_cast<int64_t>(n));
    }
    small.insert(small.end(), {std::numeric_limits<int32_t>::min(), INT32_MAX, INT32_MAX - 1});
    Values divided = values_of(small);
    divide(DType::kInt32, divided.data(), small.size(), n);
    EXPECT_TRUE(same(DType::kInt32, divided, reference_divide(DType::kInt32, values_of(small), n)));
    divided = values_of(large);
    divide(DType::kInt64, divided.data(), large.size(), n);
    for (int64_t k = -300; k <= 300; ++k) {
      EXPECT_EQ(elements_of<int64_t>(divided)[static_cast<size_t>(k + 300)],
                k + (int64_t{1} << 55));
    }
  }
  Values lowest = values_of<int64_t>({INT64_MIN, INT64_MIN, -7});
  divide(DType::kInt64, lowest.data(), 3, uint64_t{1} << 63);
  EXPECT_EQ(elements_of<int64_t>(lowest), (std::vector<int64_t>{-1, -1, 0}));
}

TEST_P(Kernels, ScaledIntegersAreClampedToTheirRange) {
  Values bytes = values_of<int8_t>({100, -100, 3, -3});
  scale(DType::kInt8, bytes.data(), 4, 1.5);
  EXPECT_EQ(elements_of<int8_t>(bytes), (std::vector<int8_t>{127, -128, 4, -4}));
  Values words = values_of<uint64_t>({~uint64_t{0}, 1, 0});
  scale(DType::kUint64, words.data(), 3, -1.0);
  EXPECT_EQ(elements_of<uint64_t>(words), (std::vector<uint64_t>{0, 0, 0}));
  words = values_of<int64_t>({INT64_MAX, INT64_MIN, 5});
  scale(DType::kInt64, words.data(), 3, 2.0);
  EXPECT_EQ(elements_of<int64_t>(words), (std::vector<int64_t>{INT64_MAX, INT64_MIN, 10}));
}

TEST_P(Kernels, ProductsAddUpInDouble) {
  for (const DType dtype : kFloats) {
    for (const size_t count : {0, 1, 7, 8, 64, 1003}) {
      const Values a = random_values(dtype, count, 1);
      const Values b = random_values(dtype, count, 2);
      double dot = 0, a_squared = 0, b_squared = 0;  // exact for these values, in any order
      for (size_t i = 0; i < count; ++i) {
        const double x = hvd::testing::number_at(dtype, a, i);
        const double y = hvd::testing::number_at(dtype, b, i);
        dot += x * y;
        a_squared += x * x;
        b_squared += y * y;
      }
      Placed x(dtype, a, 1);
      Placed y(dtype, b, 2);
      const Products result = products(dtype, x.data(), y.data(), count);
      EXPECT_EQ(result.dot, dot) << to_string(dtype) << " " << count;
      EXPECT_EQ(result.a_squared, a_squared);
      EXPECT_EQ(result.b_squared, b_squared);
    }
  }
  // 1e30 squared overflows float32 but not double.
  const Values huge = values_of(std::vector<float>(3, 1e30f));
  const double square = static_cast<double>(1e30f) * 1e30f;
  EXPECT_EQ(products(DType::kFloat32, huge.data(), huge.data(), 3).dot, square + square + square);
}

TEST_P(Kernels, BlendRoundsOnceAndMayWriteOverItsInputs) {
  const double ca = 1.0 / 3, cb = -0.7;
  for (const DType dtype : kFloats) {
    for (const size_t count : {0, 1, 7, 64, 1003}) {
      const Values a = random_values(dtype, count, 1);
      const Values b = random_values(dtype, count, 2);
      Values expected(a.size());
      for (size_t i = 0; i < count; ++i) {
        const double x = hvd::testing::number_at(dtype, a, i);
        const double y = hvd::testing::number_at(dtype, b, i);
        const auto single = static_cast<float>(ca) * static_cast<float>(x) +
                            static_cast<float>(cb) * static_cast<float>(y);
        std::byte* to = expected.data() + i * size_of(dtype);
        if (dtype == DType::kFloat64) {
          const double exact = ca * x + cb * y;
          std::memcpy(to, &exact, 8);
        } else if (dtype == DType::kFloat32) {
          const auto rounded = static_cast<float>(ca * x + cb * y);
          std::memcpy(to, &rounded, 4);
        } else {
          const uint16_t rounded = dtype == DType::kFloat16 ? hvd::testing::encode_float16(single)
                                                            : hvd::testing::encode_bfloat16(single);
          std::memcpy(to, &rounded, 2);
        }
      }
      Placed x(dtype, a, 1);
      Placed y(dtype, b, 2);
      Placed out(dtype, count, 3);
      blend(dtype, out.data(), x.data(), ca, y.data(), cb, count);
      EXPECT_TRUE(same(dtype, out.span(), expected));
      blend(dtype, y.data(), x.data(), ca, y.data(), cb, count);
      EXPECT_TRUE(same(dtype, y.span(), expected));
      EXPECT_TRUE(out.guard_intact() && y.guard_intact());
    }
  }
}

TEST_P(Kernels, NameTheInstructionSetInUse) {
  EXPECT_EQ(std::string(target_name()), hwy::TargetName(GetParam()));
}

}  // namespace
}  // namespace hvd::kernels
