// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/wire.h"

#include <fmt/format.h>

#include "transport/health.h"

namespace hvd {
namespace {

constexpr uint32_t kMaxAddresses = 64;        // of one record; a rank publishes at most 16
constexpr uint32_t kHelloMagic = 0x6f6c6548;  // "Helo": no other message decodes as a greeting

Status get_name(Decoder& in, std::string& name) {
  HVD_TRY(in.get(name));
  if (name.size() <= kNameLimit) return Status::ok();
  return invalid_argument(fmt::format("malformed record: a name of {} bytes", name.size()));
}

Status check_rank(std::string_view what, int rank, int lowest, int size) {
  if (rank >= lowest && rank < size) return Status::ok();
  return invalid_argument(fmt::format("{} is rank {}, and the job has {} ranks", what, rank, size));
}

}  // namespace

std::string PeerRecord::host_identity() const {
  return fmt::format("{}\n{}\n{}", host_name, boot_id, shm_device);
}

std::string PeerRecord::name() const { return fmt::format("host {}, pid {}", host_name, pid); }

ByteBuffer encode(const PeerRecord& record) {
  Encoder out;
  out.put(record.host_name).put(record.boot_id).put(record.shm_device).put(record.net_space);
  out.put(record.pid_space).put(record.pid).put(record.uid).put(record.local_name);
  out.put(static_cast<uint32_t>(record.addresses.size()));
  for (const PeerRecord::Address& address : record.addresses) {
    out.put(address.endpoint.to_string()).put(address.prefix_length).put(address.loopback);
  }
  out.put(record.tags);
  return out.take();
}

Result<PeerRecord> decode_peer_record(ConstBytes bytes) {
  Decoder in(bytes);
  PeerRecord record;
  HVD_TRY(get_name(in, record.host_name));
  HVD_TRY(get_name(in, record.boot_id));
  HVD_TRY(in.get(record.shm_device));
  HVD_TRY(in.get(record.net_space));
  HVD_TRY(in.get(record.pid_space));
  HVD_TRY(in.get(record.pid));
  HVD_TRY(in.get(record.uid));
  HVD_TRY(get_name(in, record.local_name));
  uint32_t count = 0;
  HVD_TRY(in.get(count));
  if (count > kMaxAddresses) {
    return invalid_argument(fmt::format("malformed record: {} addresses", count));
  }
  for (uint32_t i = 0; i < count; ++i) {
    std::string_view text;
    PeerRecord::Address address;
    HVD_TRY(in.get(text));
    HVD_TRY(in.get(address.prefix_length));
    HVD_TRY(in.get(address.loopback));
    HVD_TRY_ASSIGN(address.endpoint, Endpoint::parse(text));
    record.addresses.push_back(address);
  }
  HVD_TRY(in.get(record.tags));
  HVD_TRY(in.finish());
  return record;
}

ByteBuffer encode(const Hello& hello) {
  Encoder out;
  out.put(kHelloMagic).put(hello.round).put(static_cast<uint8_t>(hello.purpose));
  out.put(hello.from).put(hello.to).put(hello.communicator);
  return out.take();
}

Result<Hello> decode_hello(ConstBytes bytes, int size) {
  Decoder in(bytes);
  uint32_t magic = 0;
  uint8_t purpose = 0;
  Hello hello;
  HVD_TRY(in.get(magic));
  if (magic != kHelloMagic) return invalid_argument("malformed record: not a greeting");
  HVD_TRY(get_name(in, hello.round));
  HVD_TRY(in.get(purpose));
  HVD_TRY(in.get(hello.from));
  HVD_TRY(in.get(hello.to));
  HVD_TRY(in.get(hello.communicator));
  HVD_TRY(in.finish());
  hello.purpose = static_cast<Hello::Purpose>(purpose);
  if (purpose < static_cast<uint8_t>(Hello::Purpose::kData) ||
      purpose > static_cast<uint8_t>(Hello::Purpose::kControl)) {
    return invalid_argument(fmt::format("malformed record: purpose {}", purpose));
  }
  HVD_TRY(check_rank("the sender", hello.from, 0, size));
  HVD_TRY(check_rank("the receiver", hello.to, 0, size));
  if (hello.from == hello.to) return invalid_argument("a rank that greets itself");
  return hello;
}

ByteBuffer encode(const WatchMessage& message) {
  Encoder out;
  out.put(static_cast<uint8_t>(message.kind)).put(message.origin).put(message.lost_rank);
  out.put(message.code).put(message.text).put(message.idle_ms);
  return out.take();
}

Result<WatchMessage> decode_watch_message(ConstBytes bytes, int size) {
  Decoder in(bytes);
  uint8_t kind = 0;
  WatchMessage message;
  HVD_TRY(in.get(kind));
  HVD_TRY(in.get(message.origin));
  HVD_TRY(in.get(message.lost_rank));
  HVD_TRY(in.get(message.code));
  HVD_TRY(get_name(in, message.text));
  HVD_TRY(in.get(message.idle_ms));
  HVD_TRY(in.finish());
  message.kind = static_cast<WatchMessage::Kind>(kind);
  if (kind < static_cast<uint8_t>(WatchMessage::Kind::kGoodbye) ||
      kind > static_cast<uint8_t>(WatchMessage::Kind::kAlive)) {
    return invalid_argument(fmt::format("malformed record: message kind {}", kind));
  }
  HVD_TRY(check_rank("the origin", message.origin, -1, size));
  HVD_TRY(check_rank("the lost rank", message.lost_rank, -1, size));
  return message;
}

WatchMessage failure_message(int origin, const Status& reason) {
  WatchMessage message{WatchMessage::Kind::kFailure, origin, reason.lost_rank(),
                       static_cast<uint8_t>(reason.code()),
                       std::string(reason_without_rank(reason))};
  if (message.text.size() > kNameLimit) message.text.resize(kNameLimit);
  return message;
}

Status failure_from(const WatchMessage& message) {
  if (message.code == static_cast<uint8_t>(StatusCode::kPeerLost) && message.lost_rank >= 0) {
    return peer_lost(message.lost_rank, message.text);
  }
  return aborted(fmt::format("rank {} ended the job: {}", message.origin, message.text));
}

}  // namespace hvd
