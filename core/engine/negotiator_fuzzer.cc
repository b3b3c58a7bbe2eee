// SPDX-License-Identifier: Apache-2.0
// One rank whose neighbours send arbitrary messages. It refuses a message, and then the job is
// broken; or it continues and still holds every tensor of its own that no plan has answered.
#include <algorithm>
#include <set>
#include <string>

#include "engine/messages.h"
#include "engine/negotiator.h"

namespace hvd {
namespace {

constexpr int kMiddle = 1;  // has a parent, rank 0, and two children
constexpr int kFirstChild = 2;

NegotiatorOptions options_of(int rank, uint8_t variant) {
  NegotiatorOptions options = NegotiatorOptions::in_tree(rank, Topology({0, 1, 1, 1}));
  options.cache_capacity = variant % 3;
  options.groups_matter = variant % 2 != 0;
  return options;
}

class Fuzzed {
 public:
  explicit Fuzzed(ConstBytes input)
      : input_(input), rank_(byte() % 2), negotiator_(options_of(rank_, byte())) {}

  void run() {
    while (input_.remaining() > 0) {
      if (!happen().is_ok()) return;
      Plan plan;
      while (negotiator_.next_plan(plan)) {
        for (const auto& response : plan.responses) waiting_.erase(response->request.name);
        if (plan.last_joined) joined_ = false;
      }
      HVD_CHECK(negotiator_.waiting() >= waiting_.size());
    }
  }

 private:
  Status happen() {
    switch (byte() % 8) {
      case 0: submit(); return Status::ok();
      case 1:
        joined_ = true;
        negotiator_.join();
        return Status::ok();
      case 2: return negotiator_.receive(child(), announcement());
      case 3: return negotiator_.receive(rank_ == kMiddle ? 0 : child(), plan());
      case 4: return negotiator_.receive(byte() % 4, raw());
      case 5: negotiator_.set_cache_capacity(byte() % 3); return Status::ok();
      case 6:
        if (negotiator_.can_decide()) negotiator_.decide();
        return Status::ok();
      default:
        return negotiator_.flush([](int, ConstBytes message, Urgency) {
          if (kind_of(message).value() == MessageKind::kPlan) {
            HVD_CHECK(decode_plan(message).is_ok());
          }
          return Status::ok();
        });
    }
  }

  void submit() {
    const Request asked = request();
    if (joined_ || !waiting_.insert(asked.name).second) return;
    negotiator_.announce(asked, byte());
  }

  uint8_t byte() {
    uint8_t value = 0;
    (void)input_.get(value);
    return value;
  }
  int child() { return rank_ == kMiddle ? kFirstChild + byte() % 2 : kMiddle; }

  Request request() {
    Request result;
    result.name = std::string(1, static_cast<char>('a' + byte() % 4));
    result.type = static_cast<RequestType>(byte() % kRequestTypeCount);
    for (int left = byte() % 3; left > 0; --left) result.shape.push_back(byte() % 3);
    return result;
  }

  std::vector<ResponseId> ids() {
    std::set<ResponseId> result;
    for (int left = byte() % 3; left > 0; --left) result.insert(byte() % 8);
    return {result.begin(), result.end()};
  }

  ByteBuffer announcement() {
    Encoder out;
    out.put(static_cast<uint8_t>(MessageKind::kAnnouncement)).put(uint64_t{byte()});
    std::vector<int32_t> joined(byte() % 3, 0);
    for (int32_t& rank : joined) rank = byte() % 4;
    out.put(joined);
    encode_ids(ids(), out);
    const uint32_t spelled = byte() % 3;
    out.put(spelled);
    for (uint32_t i = 0; i < spelled; ++i) {
      encode(request(), out);
      std::vector<int32_t> ranks(byte() % 3, kFirstChild);
      out.put(int32_t{byte() % 4}).put(ranks).put(std::vector<int64_t>(ranks.size(), byte()));
      encode(Status::ok(), out);
    }
    encode(byte() % 8 == 0 ? aborted("ended") : Status::ok(), out);
    return out.take();
  }

  ByteBuffer plan() {
    DecidedPlan result;
    result.cached = ids();
    for (int left = byte() % 3; left > 0; --left) {
      Response& response = result.spelled.emplace_back();
      response.request = request();
      if (byte() % 4 != 0) response.first_dimensions.assign(4, byte());
      if (byte() % 4 == 0) response.error = precondition("no");
    }
    result.remember = byte() % 2 == 0;
    if (byte() % 8 == 0) result.last_joined = byte() % 8;
    return encode(result);
  }

  ByteBuffer raw() {
    ByteBuffer result(std::min<size_t>(byte(), input_.remaining()));
    for (std::byte& each : result) each = std::byte{byte()};
    // A plan that can be decoded is the same after encoding and decoding.
    if (const auto decoded = decode_plan(result); decoded.is_ok()) {
      const ByteBuffer again = encode(*decoded);
      HVD_CHECK(encode(decode_plan(again).value()) == again);
    }
    return result;
  }

  Decoder input_;
  const int rank_;
  Negotiator negotiator_;
  bool joined_ = false;
  std::set<std::string> waiting_;  // tensors of this rank that no plan has answered
};

}  // namespace
}  // namespace hvd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hvd::Fuzzed(std::as_bytes(std::span(data, size))).run();
  return 0;
}
