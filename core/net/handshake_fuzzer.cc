// SPDX-License-Identifier: Apache-2.0
// A peer that sends any bytes, or the bytes of an honest peer with some bits flipped: it is
// authenticated exactly if no bit was flipped.
#include <algorithm>

#include "net/handshake.h"

namespace hvd {
namespace {

// Returns the input piece by piece, then zeros.
class Input {
 public:
  explicit Input(ConstBytes bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = std::to_integer<uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }

 private:
  ConstBytes rest_;
};

// Moves the output of `from` to `to` and changes each byte by the next byte of the input; true if
// no byte was changed.
bool carry_damaged(Handshake& from, Handshake& to, Input& input) {
  bool intact = true;
  while (!from.output().empty() && to.wanted() > 0) {
    const size_t piece = std::min({from.output().size(), to.wanted(), size_t{23}});
    ByteBuffer bytes(from.output().begin(), from.output().begin() + static_cast<ptrdiff_t>(piece));
    for (std::byte& byte : bytes) {
      const uint8_t change = input.byte();
      intact = intact && change == 0;
      byte ^= static_cast<std::byte>(change);
    }
    from.sent(piece);
    to.feed(bytes);
  }
  return intact;
}

void feed_raw(Handshake& side, Input& input) {
  while (side.wanted() > 0 && !input.empty()) {
    ByteBuffer bytes;
    const size_t piece = std::min<size_t>(side.wanted(), 1 + input.byte() % 40);
    for (size_t i = 0; i < piece; ++i) bytes.push_back(static_cast<std::byte>(input.byte()));
    side.feed(bytes);
  }
  HVD_CHECK(side.state() != Handshake::State::kDone);
  HVD_CHECK(side.state() == Handshake::State::kRunning || !side.status().is_ok());
}

}  // namespace
}  // namespace hvd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  static const Secret secret = Secret::from_bytes(ByteBuffer(Secret::kSize, std::byte{7}));
  Nonce client_nonce;
  Nonce server_nonce;
  client_nonce.fill(std::byte{1});
  server_nonce.fill(std::byte{2});
  Input input(std::as_bytes(std::span(data, size)));
  const uint8_t mode = input.byte();
  const bool tls = (mode & 1) != 0;
  ClientHandshake client(secret, tls, client_nonce);
  ServerHandshake server(secret, tls, server_nonce);
  if ((mode & 2) != 0) {
    feed_raw((mode & 4) != 0 ? static_cast<Handshake&>(client) : server, input);
    return 0;
  }
  bool intact = carry_damaged(client, server, input);
  intact = carry_damaged(server, client, input) && intact;
  HVD_CHECK((client.state() == Handshake::State::kDone) == intact);
  intact = carry_damaged(client, server, input) && intact;
  HVD_CHECK((server.state() == Handshake::State::kDone) == intact);
  return 0;
}
