// SPDX-License-Identifier: Apache-2.0
// The cost of training steps through hvd.h, alternating with Open MPI in the same processes.
//
//   mpirun -np 2 engine_peers <rounds>
//
// Prints one JSON object per scenario. Times are in microseconds, one figure per round on the
// slowest rank: the median of many calls for single operations, a mean for steps. Scenarios:
//   4 B                    one float; "submitted without waiting" leaves it to the engine thread
//   1000 tensors of 1 KiB  submitted one by one, with and without a timeline
//   ResNet-50              161 tensors, 102 MB; "one tensor" is the same data as a single tensor
//   idle                   share of one core that the engine uses without work, in percent
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench.h"
#include "capi/hvd.h"
#include "resnet50.h"

namespace hvd::bench {
namespace {

void must_do(hvd_code code) {
  if (code == HVD_OK) return;
  fmt::print(stderr, "{}\n", hvd_error());
  std::_Exit(1);
}

int mpi_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int mpi_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// Makes a job of this project of the MPI processes, by environment variables. Rank 0 runs the
// rendezvous server and gets it; the other ranks get null.
hvd_store* meet() {
  char secret[HVD_SECRET_TEXT] = {};
  int port = 0;
  hvd_store* rendezvous = nullptr;
  if (mpi_rank() == 0) {
    hvd_make_secret(secret);
    must_do(hvd_store_start(secret, "127.0.0.1", /*tls=*/0, &rendezvous));
    port = hvd_store_port(rendezvous);
  }
  MPI_Bcast(secret, sizeof(secret), MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("_HOROVOD_SECRET_KEY", secret);
  set("HOROVOD_RENDEZVOUS", fmt::format("127.0.0.1:{}", port));
  set("HOROVOD_RANK", std::to_string(mpi_rank()));
  set("HOROVOD_SIZE", std::to_string(mpi_size()));
  set("HOROVOD_TIMELINE", "DYNAMIC");
  return rendezvous;
}

// The largest figure of all ranks, on every rank.
double slowest(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

// One tensor of a step.
struct Tensor {
  std::string name;
  std::vector<float> data;
};

std::vector<Tensor> make_tensors(const std::string& prefix, const std::vector<size_t>& counts) {
  std::vector<Tensor> tensors;
  for (const size_t count : counts) {
    tensors.push_back({prefix + "." + std::to_string(tensors.size()), std::vector<float>(count)});
  }
  return tensors;
}

hvd_operation* submit(Tensor& tensor, uint32_t flags) {
  hvd_request request = HVD_REQUEST_INIT;
  request.op = HVD_SUM;
  request.flags = flags;
  const int64_t shape[] = {static_cast<int64_t>(tensor.data.size())};
  hvd_tensor view = {sizeof(hvd_tensor)};
  view.name = tensor.name.c_str();
  view.input = tensor.data.data();
  view.output = tensor.data.data();
  view.shape = shape;
  view.dims = 1;
  view.dtype = HVD_FLOAT32;
  hvd_operation* operation = nullptr;
  must_do(hvd_submit(&request, &view, 1, &operation));
  return operation;
}

void finish(hvd_operation* operation) {
  must_do(hvd_wait(operation, -1));
  hvd_release(operation);
}

// HVD_WILL_WAIT lets this thread run the operation itself instead of waking the engine thread.
void reduce(Tensor& tensor) { finish(submit(tensor, HVD_WILL_WAIT)); }

// Like an optimizer: submits all gradients, then waits for all.
void step(std::vector<Tensor>& tensors) {
  std::vector<hvd_operation*> operations;
  operations.reserve(tensors.size());
  for (Tensor& tensor : tensors) operations.push_back(submit(tensor, 0));
  for (hvd_operation* operation : operations) finish(operation);
}

std::string trace_file() {
  return (std::filesystem::temp_directory_path() / fmt::format("hvd-bench-{}.json", ::getppid()))
      .string();
}

// Microseconds of a call, after 20 calls that do not count.
double median_of(int calls, const std::function<void()>& call) {
  for (int i = 0; i < 20; ++i) call();
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<double> times(calls);
  for (double& time : times) {
    const auto start = Clock::now();
    call();
    time = microseconds_since(start);
  }
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  return slowest(times[calls / 2]);
}

// Microseconds of a call, after 2 calls that do not count.
double mean_of(int calls, const std::function<void()>& call) {
  for (int i = 0; i < 2; ++i) call();
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return slowest(microseconds_since(start) / calls);
}

void print(const std::string& scenario,
           const std::vector<std::pair<std::string, std::vector<double>>>& columns) {
  if (mpi_rank() != 0) return;
  std::string text = fmt::format(R"({{"scenario": "{}", "ranks": {})", scenario, mpi_size());
  for (const auto& [name, figures] : columns) {
    text += fmt::format(R"(, "{}": {})", name, json_list(figures));
  }
  fmt::print("{}}}\n", text);
  std::fflush(stdout);
}

void small(int rounds) {
  auto tensors = make_tensors("small", {1});
  std::vector<double> mpi;
  std::vector<double> ours;
  std::vector<double> through_engine;
  float value = 0;
  for (int round = 0; round < rounds; ++round) {
    mpi.push_back(median_of(
        2000, [&] { MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }));
    ours.push_back(median_of(2000, [&] { reduce(tensors[0]); }));
    through_engine.push_back(median_of(500, [&] { finish(submit(tensors[0], 0)); }));
  }
  print("4 B", {{"openmpi", mpi}, {"ours", ours}, {"submitted without waiting", through_engine}});
}

void many_tensors(int rounds) {
  auto tensors = make_tensors("many", std::vector<size_t>(1000, 256));
  std::vector<double> plain;
  std::vector<double> traced;
  for (int round = 0; round < rounds; ++round) {
    plain.push_back(mean_of(30, [&] { step(tensors); }));
    must_do(hvd_start_timeline(trace_file().c_str(), /*mark_cycles=*/0));
    traced.push_back(mean_of(30, [&] { step(tensors); }));
    must_do(hvd_stop_timeline());
  }
  print("1000 tensors of 1 KiB", {{"ours", plain}, {"with timeline", traced}});
}

void many_layers(int rounds) {
  auto layers = make_tensors("layers", resnet50());
  size_t total = 0;
  for (const Tensor& tensor : layers) total += tensor.data.size();
  auto whole = make_tensors("whole", {total});
  std::vector<double> plain;
  std::vector<double> traced;
  std::vector<double> one;
  for (int round = 0; round < rounds; ++round) {
    one.push_back(mean_of(4, [&] { reduce(whole[0]); }));
    plain.push_back(mean_of(4, [&] { step(layers); }));
    must_do(hvd_start_timeline(trace_file().c_str(), /*mark_cycles=*/0));
    traced.push_back(mean_of(4, [&] { step(layers); }));
    must_do(hvd_stop_timeline());
  }
  print("ResNet-50", {{"ours", plain}, {"one tensor", one}, {"with timeline", traced}});
}

// Share of one core that an engine without work uses, in percent, over 3 seconds.
void idle(int /*rounds*/) {
  const auto used = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto us = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) * 1e6 + t.tv_usec;
    };
    return us(usage.ru_utime) + us(usage.ru_stime);
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double before = used();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const double share = (used() - before) / 3e6 * 100;
  print("idle", {{"percent", {slowest(share)}}});
}

}  // namespace
}  // namespace hvd::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  hvd_store* rendezvous = hvd::bench::meet();
  // One job per scenario: no training script has the tensors of all scenarios.
  for (const auto scenario :
       {hvd::bench::small, hvd::bench::many_tensors, hvd::bench::many_layers, hvd::bench::idle}) {
    hvd::bench::must_do(hvd_init(nullptr));
    scenario(rounds);
    MPI_Barrier(MPI_COMM_WORLD);
    hvd_shutdown();
  }
  hvd_store_stop(rendezvous);
  std::error_code ignored;
  if (hvd::bench::mpi_rank() == 0) std::filesystem::remove(hvd::bench::trace_file(), ignored);
  MPI_Finalize();
  return 0;
}
