// SPDX-License-Identifier: Apache-2.0
// A training step like that of ResNet-50 between hosts, through hvd.h, alternating between the
// kinds of wire protection. scripts/bench_network.py starts one of these in each of several network
// namespaces.
//
//   network_step <rank> <size> <interface> <rendezvous ip> <rounds> <compute ms> <how> <kind …>
//
// A step computes for <compute ms> milliseconds. The first third is the forward pass, which has no
// gradients. The rest is the backward pass: it is divided into 161 equal parts, and after each part
// one tensor is submitted (102 MB in all), the last layer first. Then the step waits for all
// tensors. <how> is `sleep`, as with an accelerator that does not use the cores, or `spin`. <kind>
// is `none`, `tags` or `tls`. Rank 0 runs the rendezvous servers, on ports 7000 and 7001 (TLS), and
// prints "ready" when the other ranks may start. For each kind it prints one JSON object, one
// figure per round:
//   step_ms  time of a step in milliseconds, on the slowest rank
//   cpu_ms   CPU time of a step without spinning, on the rank with the most
// HVD_BENCH_SECRET holds the secret of the job.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bench.h"
#include "capi/hvd.h"
#include "resnet50.h"

namespace hvd::bench {
namespace {

constexpr int kStepsPerRound = 5;

[[noreturn]] void give_up(const char* why) {
  fmt::print(stderr, "{}\n", why);
  std::_Exit(1);
}

void must_do(hvd_code code) {
  if (code != HVD_OK) give_up(hvd_error());
}

struct Arguments {
  int rank;
  int size;
  std::string interface;
  std::string rendezvous;
  int rounds;
  double compute_ms;
  bool spin;
  std::vector<std::string> kinds;
};

Arguments parse(int argc, char** argv) {
  if (argc < 9) give_up("see the head of network_step.cc");
  Arguments given{std::atoi(argv[1]),
                  std::atoi(argv[2]),
                  argv[3],
                  argv[4],
                  std::atoi(argv[5]),
                  std::strtod(argv[6], nullptr),
                  std::string(argv[7]) == "spin",
                  {}};
  given.kinds.assign(argv + 8, argv + argc);
  return given;
}

void reduce(const char* name, void* data, size_t count, hvd_dtype dtype, hvd_reduce_op op,
            hvd_operation** operation) {
  hvd_request request = HVD_REQUEST_INIT;
  request.op = op;
  const int64_t shape[] = {static_cast<int64_t>(count)};
  hvd_tensor view = {sizeof(hvd_tensor)};
  view.name = name;
  view.input = data;
  view.output = data;
  view.shape = shape;
  view.dims = 1;
  view.dtype = dtype;
  must_do(hvd_submit(&request, &view, 1, operation));
}

void finish(hvd_operation* operation) {
  must_do(hvd_wait(operation, -1));
  hvd_release(operation);
}

// The largest figure of all ranks, on every rank. It is also a barrier.
double slowest(double mine) {
  hvd_operation* operation = nullptr;
  reduce("slowest", &mine, 1, HVD_FLOAT64, HVD_MAX, &operation);
  finish(operation);
  return mine;
}

struct Tensor {
  std::string name;
  std::vector<float> data;
};

void compute(double microseconds, bool spin) {
  const auto start = Clock::now();
  if (!spin) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(microseconds));
  while (microseconds_since(start) < microseconds) {
  }
}

void step(const Arguments& arguments, std::vector<Tensor>& tensors) {
  std::vector<hvd_operation*> operations(tensors.size());
  const double forward = arguments.compute_ms * 1000 / 3;
  const double part = 2 * forward / static_cast<double>(tensors.size());
  const auto start = Clock::now();
  for (size_t i = tensors.size(); i-- > 0;) {
    // Relative to the start of the step, so that sleeps that are too long do not add up.
    const double until = forward + part * static_cast<double>(tensors.size() - i);
    const double ahead = until - microseconds_since(start);
    if (ahead > 0) compute(ahead, arguments.spin);
    reduce(tensors[i].name.c_str(), tensors[i].data.data(), tensors[i].data.size(), HVD_FLOAT32,
           HVD_SUM, &operations[i]);
  }
  for (size_t i = tensors.size(); i-- > 0;) finish(operations[i]);
}

double cpu_ms() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) * 1e-3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

void join(const Arguments& arguments, const std::string& kind, const std::string& secret) {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  const bool tls = kind == "tls";
  set("_HOROVOD_SECRET_KEY", secret);
  set("HOROVOD_RENDEZVOUS", fmt::format("{}:{}", arguments.rendezvous, tls ? 7001 : 7000));
  set("HOROVOD_RANK", std::to_string(arguments.rank));
  set("HOROVOD_SIZE", std::to_string(arguments.size));
  set("HOROVOD_HOSTNAME", fmt::format("host{}", arguments.rank));
  set("HOROVOD_NETWORK_INTERFACES", arguments.interface);
  set("HOROVOD_TLS", tls ? "1" : "0");
  set("HOROVOD_WIRE_PROTECTION", tls ? "none" : kind);
  must_do(hvd_init(nullptr));
}

struct Figures {
  std::vector<double> step_ms;
  std::vector<double> cpu_ms;
};

void measure(const Arguments& arguments, std::vector<Tensor>& tensors, Figures& figures) {
  for (int i = 0; i < 2; ++i) step(arguments, tensors);
  slowest(0);
  const double cpu = cpu_ms();
  const auto start = Clock::now();
  for (int i = 0; i < kStepsPerRound; ++i) step(arguments, tensors);
  const double took = microseconds_since(start) / 1000 / kStepsPerRound;
  const double used = (cpu_ms() - cpu) / kStepsPerRound;
  figures.step_ms.push_back(slowest(took));
  figures.cpu_ms.push_back(slowest(used - (arguments.spin ? arguments.compute_ms : 0)));
}

void run(const Arguments& arguments) {
  const char* secret = std::getenv("HVD_BENCH_SECRET");
  if (secret == nullptr) give_up("HVD_BENCH_SECRET is not set");
  hvd_store* stores[2] = {};
  if (arguments.rank == 0) {
    for (const int tls : {0, 1}) {
      const std::string bind = fmt::format("{}:{}", arguments.rendezvous, 7000 + tls);
      must_do(hvd_store_start(secret, bind.c_str(), tls, &stores[tls]));
    }
    fmt::print("ready\n");
    std::fflush(stdout);
  }
  std::vector<Tensor> tensors;
  for (const size_t count : resnet50()) {
    tensors.push_back({"layer." + std::to_string(tensors.size()), std::vector<float>(count)});
  }
  std::vector<Figures> figures(arguments.kinds.size());
  for (int round = 0; round < arguments.rounds; ++round) {
    for (size_t i = 0; i < arguments.kinds.size(); ++i) {
      join(arguments, arguments.kinds[i], secret);
      measure(arguments, tensors, figures[i]);
      slowest(0);
      hvd_shutdown();
    }
  }
  for (hvd_store* store : stores) hvd_store_stop(store);
  if (arguments.rank != 0) return;
  for (size_t i = 0; i < figures.size(); ++i) {
    fmt::print(R"({{"kind": "{}", "ranks": {}, "step_ms": {}, "cpu_ms": {}}})"
               "\n",
               arguments.kinds[i], arguments.size, json_list(figures[i].step_ms),
               json_list(figures[i].cpu_ms));
  }
}

}  // namespace
}  // namespace hvd::bench

int main(int argc, char** argv) {
  hvd::bench::run(hvd::bench::parse(argc, argv));
  return 0;
}
