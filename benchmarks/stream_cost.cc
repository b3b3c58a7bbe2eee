// SPDX-License-Identifier: Apache-2.0
// CPU time of a byte between hosts, with each kind of wire protection. Both ends of one loopback
// connection are in one thread, so that other load on the machine does not count.
//
//   stream_cost [rounds]
//
// Prints one JSON object per kind: microseconds of CPU (user and system) per MiB, one figure per
// round, for writing, for reading into a buffer, and, where the stream supports it, for reading in
// place.
#include <poll.h>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

#include "bench.h"
#include "net/negotiation.h"
#include "net/socket.h"
#include "net/tagged_stream.h"

namespace hvd::bench {
namespace {

constexpr size_t kPiece = 256 << 10;  // bytes that a mesh writes or reads at a time
constexpr size_t kTotal = 128 << 20;  // bytes per round

double cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct Ends {
  AuthenticatedStream client;
  AuthenticatedStream server;
};

Ends connect(bool tls) {
  const Fd listener = must(listen_on(Endpoint::loopback()));
  const Endpoint where = must(local_endpoint(listener));
  Fd near = must(connect_to(where, patience()));
  must(wait_for(listener.get(), POLLIN, patience()));
  const Secret secret = Secret::generate();
  Negotiation client = Negotiation::as_client(std::move(near), secret, tls);
  Negotiation server = Negotiation::as_server(must(accept_from(listener)), secret, tls);
  uint32_t client_waits = kReadable;
  uint32_t server_waits = kReadable;
  while ((client_waits | server_waits) != 0) {
    if (client_waits != 0) client_waits = must(client.advance());
    if (server_waits != 0) server_waits = must(server.advance());
  }
  return {client.take(where), server.take(where)};
}

// Microseconds per MiB, one figure per round.
struct Cost {
  std::vector<double> write;
  std::vector<double> read;
};

using Read = std::function<size_t(Bytes place)>;

void measure(Stream& out, const Read& read, std::vector<std::byte>& from,
             std::vector<std::byte>& to, Cost& cost) {
  double writing = 0;
  double reading = 0;
  size_t sent = 0;
  size_t received = 0;
  while (received < kTotal) {
    const double start = cpu_us();
    // At most two pieces in flight: with a full socket the kernel would account the work of the
    // receiver to the writer.
    if (sent < kTotal && sent - received <= kPiece) {
      const size_t at = sent % from.size();
      sent +=
          must(out.write_some(ConstBytes(from).subspan(at, std::min(kPiece, from.size() - at))));
    }
    const double middle = cpu_us();
    const size_t at = received % to.size();
    received += read(Bytes(to).subspan(at, std::min(kPiece, to.size() - at)));
    writing += middle - start;
    reading += cpu_us() - middle;
  }
  constexpr double kMebibytes = static_cast<double>(kTotal) / (1 << 20);
  cost.write.push_back(writing / kMebibytes);
  cost.read.push_back(reading / kMebibytes);
}

void run(int rounds) {
  std::vector<std::byte> from(64 << 20, std::byte{1});
  std::vector<std::byte> to(64 << 20, std::byte{2});
  Ends plain = connect(false);
  Ends tls = connect(true);
  Ends other = connect(false);
  TaggedStream tagged_out(std::move(other.client.stream), other.client.keys);
  TaggedStream tagged_in(std::move(other.server.stream), other.server.keys);
  Cost plain_cost;
  Cost tls_cost;
  Cost tagged_cost;
  Cost in_place_cost;
  const auto by_copy = [](Stream& stream) {
    return [&stream](Bytes place) { return must(stream.read_some(place)); };
  };
  const Read in_place = [&](Bytes) {
    const size_t shown = must(tagged_in.peek()).size();
    tagged_in.release(shown);
    return shown;
  };
  for (int round = 0; round < rounds; ++round) {
    measure(*plain.client.stream, by_copy(*plain.server.stream), from, to, plain_cost);
    measure(*tls.client.stream, by_copy(*tls.server.stream), from, to, tls_cost);
    measure(tagged_out, by_copy(tagged_in), from, to, tagged_cost);
    measure(tagged_out, in_place, from, to, in_place_cost);
  }
  const auto print = [](const char* kind, const Cost& cost) {
    fmt::print(R"({{"kind": "{}", "write us/MiB": {}, "read us/MiB": {}}})"
               "\n",
               kind, json_list(cost.write), json_list(cost.read));
  };
  print("socket", plain_cost);
  print("tags", tagged_cost);
  print("tags, read in place", in_place_cost);
  print("TLS", tls_cost);
}

}  // namespace
}  // namespace hvd::bench

int main(int argc, char** argv) {
  hvd::bench::run(argc > 1 ? std::atoi(argv[1]) : 5);
  return 0;
}
