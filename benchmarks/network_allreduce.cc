// SPDX-License-Identifier: Apache-2.0
// float32 Sum allreduce over TCP, one rank per host: scripts/run_benchmarks.py starts one of these
// in each of several network namespaces.
//
//   network_allreduce <rank> <size> <interface> <rendezvous ip:port> <bytes> <rounds> [algorithm …]
//
// Rank 0 runs the rendezvous server and prints "ready" when the other ranks may start. The
// algorithms, `auto` if none is given, alternate in every round. `auto:tags` and `auto:tls` protect
// the connections. For each algorithm rank 0 prints one JSON object:
//   us          time per operation in microseconds, one figure per round: the mean of a batch on
//               its slowest rank
//   latency_us  one-way latency of 4 bytes between ranks 0 and 1 before each round, over a plain
//               socket on which both ranks spin
// HVD_BENCH_SECRET holds the secret of the job in base64.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "bench.h"
#include "collectives/allreduce/allreduce.h"
#include "net/rendezvous.h"
#include "net/secret.h"
#include "net/socket.h"
#include "transport/fabric.h"

namespace hvd::bench {
namespace {

struct Choice {
  AllreduceAlgorithm algorithm;
  std::string protection;  // none, tags or tls
};

struct Arguments {
  int rank;
  int size;
  std::string interface;
  std::string rendezvous;
  size_t bytes;
  int rounds;
  std::vector<Choice> choices;
};

Arguments parse(int argc, char** argv) {
  if (argc < 7) must(invalid_argument("see the head of network_allreduce.cc"));
  Arguments arguments{std::atoi(argv[1]),  std::atoi(argv[2]), argv[3], argv[4],
                      std::stoul(argv[5]), std::atoi(argv[6]), {}};
  for (int i = 7; i < argc; ++i) {
    const std::string_view text = argv[i];
    const size_t colon = text.find(':');
    arguments.choices.push_back(
        {must(parse_allreduce_algorithm(std::string(text.substr(0, colon)))),
         colon == std::string_view::npos ? "none" : std::string(text.substr(colon + 1))});
  }
  if (arguments.choices.empty()) arguments.choices = {{AllreduceAlgorithm::kAuto, "none"}};
  return arguments;
}

// The largest figure of all ranks, on every rank. It is also a barrier.
double slowest(Transport& transport, double mine) {
  Scratch scratch;
  const auto maximum = must(Reduction::make(ReduceOp::kMax, DType::kFloat64, transport.size()));
  const Bytes data = std::as_writable_bytes(std::span(&mine, 1));
  must(recursive_doubling_allreduce({transport, scratch, patience()}, data, maximum));
  return mine;
}

// A separate connection between ranks 0 and 1, which does not use the transport. Other ranks have
// none.
class PingPong {
 public:
  PingPong(Transport& transport, const std::string& interface) : rank_(transport.rank()) {
    std::array<char, 64> where{};
    if (rank_ == 0) {
      const auto own = must(local_interfaces({interface}));
      const Fd listener = must(listen_on(own.at(0).address));
      must(local_endpoint(listener)).to_string().copy(where.data(), where.size() - 1);
      must(transport.send(1, std::as_bytes(std::span(where)), patience()));
      must(wait_for(listener.get(), POLLIN, patience()));
      socket_ = must(accept_from(listener));
    } else if (rank_ == 1) {
      must(transport.recv(0, std::as_writable_bytes(std::span(where)), patience()));
      socket_ = must(connect_to(must(Endpoint::parse(where.data())), patience()));
    }
  }

  // One-way latency in microseconds; 0 on ranks above 1.
  double measure() {
    constexpr int kRoundTrips = 1000;
    if (rank_ > 1) return 0;
    const auto start = Clock::now();
    for (int i = 0; i < kRoundTrips; ++i) {
      if (rank_ == 0) send_word();
      receive_word();
      if (rank_ == 1) send_word();
    }
    return microseconds_since(start) / (2 * kRoundTrips);
  }

 private:
  void send_word() {
    if (::send(socket_.get(), &word_, sizeof(word_), MSG_NOSIGNAL) != sizeof(word_)) {
      must(unavailable("ping-pong: nothing sent"));
    }
  }
  void receive_word() {
    ssize_t got = -1;
    while (got < 0) got = ::recv(socket_.get(), &word_, sizeof(word_), MSG_DONTWAIT);
    if (got != sizeof(word_)) must(unavailable("ping-pong: the peer has gone"));
  }

  const int rank_;
  Fd socket_;
  int word_ = 0;
};

// All ranks, connected with one kind of protection.
struct World {
  std::unique_ptr<RendezvousClient> rendezvous;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Transport> transport;
};

World join(const Arguments& arguments, const Secret& secret, const std::string& protection) {
  World world;
  world.rendezvous =
      must(RendezvousClient::connect(arguments.rendezvous, secret, /*tls=*/false, patience()));
  FabricOptions options;
  options.rank = arguments.rank;
  options.size = arguments.size;
  options.round = protection;
  options.host_name = fmt::format("host{}", arguments.rank);
  options.interfaces = {arguments.interface};
  options.tls = protection == "tls";
  options.tags = protection == "tags";
  world.fabric = must(Fabric::join(options, secret, world.rendezvous.get(), patience()));
  std::vector<int> all(arguments.size);
  std::iota(all.begin(), all.end(), 0);
  world.transport = must(world.fabric->make_mesh(0, all, patience()));
  return world;
}

struct Contender {
  Choice choice;
  AllreduceAlgorithm chosen;
  Transport* transport;
  std::vector<double> times;
};

double time_batch(const Contender& contender, Bytes data, Scratch& scratch) {
  Transport& transport = *contender.transport;
  const int calls = data.size() >= (1 << 20) ? 1 : 500;
  const auto sum = must(Reduction::make(ReduceOp::kSum, DType::kFloat32, transport.size()));
  const auto run = [&] {
    must(run_allreduce({transport, scratch, patience()}, contender.chosen, data, sum));
  };
  for (int i = 1; i < std::min(calls, 20); ++i) run();
  slowest(transport, 0);
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) run();
  return slowest(transport, microseconds_since(start) / calls);
}

void compare(const std::map<std::string, World>& worlds, const Arguments& arguments) {
  std::vector<float> values(arguments.bytes / sizeof(float), 0.0F);
  const Bytes data = std::as_writable_bytes(std::span(values));
  std::vector<Contender> contenders;
  for (const Choice& choice : arguments.choices) {
    AllreduceOptions options;
    options.algorithm = choice.algorithm;
    Transport& transport = *worlds.at(choice.protection).transport;
    const auto selector =
        must(AllreduceSelector::make(transport.topology(), transport.hosts_share_memory(), options,
                                     offered_allreduce_algorithms()));
    contenders.push_back({choice, selector.choose(data.size()), &transport, {}});
  }
  Scratch scratch;
  Transport& transport = *contenders.front().transport;
  PingPong ping_pong(transport, arguments.interface);
  for (const Contender& each : contenders)
    time_batch(each, data, scratch);  // opens the connections
  std::vector<double> latency;
  for (int round = 0; round < arguments.rounds; ++round) {
    latency.push_back(slowest(transport, ping_pong.measure()));
    for (Contender& each : contenders) each.times.push_back(time_batch(each, data, scratch));
  }
  if (transport.rank() != 0) return;
  for (const Contender& each : contenders) {
    fmt::print(R"({{"ranks": {}, "bytes": {}, "algorithm": "{}", "chosen": "{}", "wire": "{}", )"
               R"("us": {}, "latency_us": {}}})"
               "\n",
               transport.size(), data.size(), to_string(each.choice.algorithm),
               to_string(each.chosen), each.choice.protection, json_list(each.times),
               json_list(latency));
  }
}

void run(const Arguments& arguments) {
  const char* encoded = std::getenv("HVD_BENCH_SECRET");
  const auto secret = must(Secret::from_base64(encoded == nullptr ? "" : encoded));
  std::unique_ptr<RendezvousServer> server;
  if (arguments.rank == 0) {
    RendezvousServerOptions options;
    options.bind = must(Endpoint::parse(arguments.rendezvous));
    server = must(RendezvousServer::start(secret, options));
    fmt::print("ready\n");
    std::fflush(stdout);
  }
  std::map<std::string, World> worlds;
  for (const Choice& choice : arguments.choices) {
    if (!worlds.contains(choice.protection)) {
      worlds.emplace(choice.protection, join(arguments, secret, choice.protection));
    }
  }
  compare(worlds, arguments);
  for (const auto& [protection, world] : worlds) {
    slowest(*world.transport, 0);  // a barrier: no rank leaves while another one still waits
  }
}

}  // namespace
}  // namespace hvd::bench

int main(int argc, char** argv) {
  hvd::bench::run(hvd::bench::parse(argc, argv));
  return 0;
}
