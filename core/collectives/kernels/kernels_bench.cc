// SPDX-License-Identifier: Apache-2.0
// Speed of the kernels on one core, in 10^9 bytes of one operand per second of CPU time; for d += s
// the memory traffic is three times that. 16 KiB fit in the first-level cache, 128 MiB are in
// memory.
//
// Run with --benchmark_repetitions=5 and compare the best figures: other programs can only slow it
// down.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/kernels/kernels.h"

namespace hvd::kernels {
namespace {

using Array = std::vector<std::byte>;

// Values of ordinary magnitude in every floating dtype (bytes 0x3C); integers accept any bytes.
Array make_array(DType dtype, size_t bytes) {
  Array array(bytes, std::byte{0x3C});
  if (dtype == DType::kBool) array.assign(bytes, std::byte{1});
  return array;
}

void report_rate(benchmark::State& state) {
  const auto bytes = static_cast<double>(state.iterations()) * static_cast<double>(state.range(0));
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
}

void combine_bench(benchmark::State& state, Combine combine, DType dtype) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const auto inputs = static_cast<size_t>(state.range(1));
  std::vector<Array> arrays(inputs, make_array(dtype, bytes));
  std::vector<const std::byte*> in;
  for (const Array& array : arrays) in.push_back(array.data());
  const CombineFn fn = combine_fn(combine, dtype);
  for (auto _ : state) {
    fn(arrays[0].data(), in.data(), inputs, bytes / size_of(dtype));
    benchmark::ClobberMemory();
  }
  report_rate(state);
}

void divide_bench(benchmark::State& state, DType dtype) {
  Array data = make_array(dtype, static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    divide(dtype, data.data(), data.size() / size_of(dtype), 1);
    benchmark::ClobberMemory();
  }
  report_rate(state);
}

void products_bench(benchmark::State& state, DType dtype) {
  const Array a = make_array(dtype, static_cast<size_t>(state.range(0)));
  const Array b = a;
  for (auto _ : state) {
    benchmark::DoNotOptimize(products(dtype, a.data(), b.data(), a.size() / size_of(dtype)));
  }
  report_rate(state);
}

void blend_bench(benchmark::State& state, DType dtype) {
  Array a = make_array(dtype, static_cast<size_t>(state.range(0)));
  const Array b = a;
  for (auto _ : state) {
    blend(dtype, a.data(), a.data(), 0.5, b.data(), 0.5, a.size() / size_of(dtype));
    benchmark::ClobberMemory();
  }
  report_rate(state);
}

constexpr int64_t kInCache = 16 << 10;

template <class Bench, class... Args>
benchmark::internal::Benchmark* add(const char* kernel, DType dtype, Bench bench, Args... args) {
  const std::string title = std::string(kernel) + "/" + std::string(to_string(dtype));
  return benchmark::RegisterBenchmark(title.c_str(), bench, args...)->MinTime(0.1);
}

void register_all() {
  const std::vector<std::string> sized = {"bytes", "inputs"};
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    add("sum", dtype, combine_bench, Combine::kSum, dtype)
        ->ArgNames(sized)
        ->ArgsProduct({{4, kInCache, 128 << 10, 1 << 20, 128 << 20}, {2}})
        ->ArgsProduct({{kInCache / 4}, {4, 8}});
    add("products", dtype, products_bench, dtype)->Arg(kInCache);
    add("blend", dtype, blend_bench, dtype)->Arg(kInCache);
  }
  for (const DType dtype : {DType::kFloat64, DType::kInt8, DType::kInt32, DType::kInt64}) {
    add("sum", dtype, combine_bench, Combine::kSum, dtype)
        ->ArgNames(sized)
        ->Args({kInCache, 2})
        ->Args({kInCache / 4, 4});
  }
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kInt32}) {
    add("max", dtype, combine_bench, Combine::kMax, dtype)->ArgNames(sized)->Args({kInCache, 2});
    add("divide", dtype, divide_bench, dtype)->Arg(kInCache);
  }
}

}  // namespace
}  // namespace hvd::kernels

int main(int argc, char** argv) {
  benchmark::AddCustomContext("instruction_set", hvd::kernels::target_name());
  hvd::kernels::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
