// SPDX-License-Identifier: Apache-2.0
// A few clients with any requests, valid or not: the limits hold, no request is answered twice, and
// no wait remains of a client that has left.
#include <map>
#include <string>

#include "net/rendezvous_table.h"

namespace hvd {
namespace {

constexpr RendezvousLimits kLimits{.key_bytes = 4, .value_bytes = 16, .keys = 4, .total_bytes = 64};

class Fuzzed {
 public:
  explicit Fuzzed(ConstBytes input) : input_(input) {}

  void run() {
    while (input_.remaining() > 0) {
      const uint64_t client = byte() % 4;
      open_[client] = ++id_;
      const Status outcome = table_.handle(client, byte() % 4 == 0 ? raw() : sensible());
      if (!outcome.is_ok() || byte() % 16 == 0) {
        table_.forget(client);
        open_.erase(client);
      }
      HVD_CHECK(table_.keys() <= kLimits.keys && table_.total_bytes() <= kLimits.total_bytes);
      // A client without an answer is waiting.
      HVD_CHECK(table_.waiters() == open_.size());
    }
    for (uint64_t client = 0; client < 4; ++client) table_.forget(client);
    HVD_CHECK(table_.waiters() == 0);
  }

 private:
  uint8_t byte() {
    uint8_t value = 0;
    (void)input_.get(value);
    return value;
  }
  std::string text() {
    std::string result(byte() % 6, '\0');
    for (char& letter : result) letter = static_cast<char>(byte() % 3);
    return result;
  }

  ByteBuffer sensible() {
    const auto op = static_cast<RendezvousOp>(1 + byte() % 10);
    Encoder encoder;
    encoder.put(id_).put(static_cast<uint8_t>(op));
    switch (op) {
      case RendezvousOp::kSet: encoder.put(text()).put(std::to_string(byte())); break;
      case RendezvousOp::kAdd: encoder.put(text()).put(int64_t{byte()} << (byte() % 56)); break;
      case RendezvousOp::kWaitAll:
        encoder.put(std::vector<std::string>{text(), text(), text()});
        break;
      case RendezvousOp::kWaitFor:
        encoder.put(std::vector<std::string>{text(), text()}).put(std::vector<int32_t>{0, 1});
        break;
      case RendezvousOp::kEnter: encoder.put(text()).put(int32_t{byte()}); break;
      case RendezvousOp::kLose: encoder.put(int32_t{byte()}).put(text()); break;
      case RendezvousOp::kStopWait:
      case RendezvousOp::kLeave: break;
      default: encoder.put(text()); break;
    }
    return encoder.take();
  }

  ByteBuffer raw() {
    Encoder encoder;
    encoder.put(id_);
    for (size_t left = byte(); left > 0 && input_.remaining() > 0; --left) encoder.put(byte());
    return encoder.take();
  }

  void on_answer(uint64_t client, const ByteBuffer& answer) {
    Decoder decoder(answer);
    uint64_t id = 0;
    uint8_t code = 0;
    std::string message;
    ByteBuffer result;
    HVD_CHECK(decoder.get(id).is_ok() && decoder.get(code).is_ok() &&
              decoder.get(message).is_ok() && decoder.get(result).is_ok());
    HVD_CHECK(decoder.finish().is_ok());
    const auto open = open_.find(client);
    HVD_CHECK(open != open_.end() && open->second == id);
    open_.erase(open);
  }

  Decoder input_;
  uint64_t id_ = 0;
  std::map<uint64_t, uint64_t> open_;  // client → its unanswered request
  RendezvousTable table_{
      kLimits, [this](uint64_t client, const ByteBuffer& answer) { on_answer(client, answer); }};
};

}  // namespace
}  // namespace hvd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hvd::Fuzzed(std::as_bytes(std::span(data, size))).run();
  return 0;
}
