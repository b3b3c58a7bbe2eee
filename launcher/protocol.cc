// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol.h"

#include <array>
#include <utility>

namespace hvd::launcher {
namespace {

// FieldWriter and FieldReader visit the fields of a message in the same order, given once in
// fields(), so that encoder and decoder cannot differ.
class FieldWriter {
 public:
  template <typename... Fields>
  Status operator()(const Fields&... fields) {
    (put(fields), ...);
    return Status::ok();
  }
  Encoder out;

 private:
  template <typename T>
  void put(const T& value) {
    out.put(value);
  }
  void put(const SecretText& secret) { out.put(secret.text()); }
  void put(const OutputStream& stream) { out.put(static_cast<uint8_t>(stream)); }
  void put(const Slot& slot) {
    (void)(*this)(slot.host, slot.rank, slot.size, slot.local_rank, slot.local_size,
                  slot.cross_rank, slot.cross_size);
  }
  void put(const std::vector<Slot>& slots) {
    out.put(static_cast<uint32_t>(slots.size()));
    for (const Slot& slot : slots) put(slot);
  }
};

// Stops at the first field that is malformed or missing. Lists grow as their items are decoded, so
// a false count cannot allocate more memory than the message justifies.
class FieldReader {
 public:
  explicit FieldReader(ConstBytes bytes) : in(bytes) {}
  template <typename... Fields>
  Status operator()(Fields&... fields) {
    Status status;
    ((status.is_ok() ? void(status = get(fields)) : void()), ...);
    return status;
  }
  Decoder in;

 private:
  template <typename T>
  Status get(T& value) {
    return in.get(value);
  }
  Status get(SecretText& secret) {
    std::string text;
    HVD_TRY(in.get(text));
    secret = SecretText(std::move(text));
    return Status::ok();
  }
  Status get(OutputStream& stream) {
    uint8_t number = 0;
    HVD_TRY(in.get(number));
    if (number > 1) return invalid_argument("malformed record: an unknown stream");
    stream = static_cast<OutputStream>(number);
    return Status::ok();
  }
  Status get(Slot& slot) {
    return (*this)(slot.host, slot.rank, slot.size, slot.local_rank, slot.local_size,
                   slot.cross_rank, slot.cross_size);
  }
  Status get(std::vector<Slot>& slots) {
    uint32_t count = 0;
    HVD_TRY(in.get(count));
    slots.clear();
    for (uint32_t i = 0; i < count; ++i) HVD_TRY(get(slots.emplace_back()));
    return Status::ok();
  }
};

// The fields of each message, for FieldWriter and FieldReader.
// A message without fields, such as Alive, falls through to the end. A new message needs a branch
// here and a place at the end of `Message`.
template <typename Codec>
Status fields(Codec& codec, auto& m) {
  using T = std::remove_cvref_t<decltype(m)>;
  if constexpr (std::is_same_v<T, StartRanks>) {
    return codec(m.slots, m.command, m.environment, m.directory, m.secret, m.rendezvous,
                 m.interfaces, m.one_host, m.tls);
  } else if constexpr (std::is_same_v<T, GrantCredit>) {
    return codec(m.bytes);
  } else if constexpr (std::is_same_v<T, StopRanks>) {
    return codec(m.grace_ms);
  } else if constexpr (std::is_same_v<T, Suspend>) {
    return codec(m.suspended);
  } else if constexpr (std::is_same_v<T, AgentReady>) {
    return codec(m.version, m.host_name);
  } else if constexpr (std::is_same_v<T, RankStarted>) {
    return codec(m.rank, m.pid);
  } else if constexpr (std::is_same_v<T, RankOutput>) {
    return codec(m.rank, m.stream, m.bytes);
  } else if constexpr (std::is_same_v<T, RankExited>) {
    return codec(m.rank, m.status);
  } else if constexpr (std::is_same_v<T, AgentWarning> || std::is_same_v<T, AgentFailed>) {
    return codec(m.text);
  } else if constexpr (std::is_same_v<T, ProbeHost>) {
    return codec(m.secret, m.interfaces, m.tls);
  } else if constexpr (std::is_same_v<T, Findings>) {
    return codec(m.cpus, m.shared_memory, m.clock_us, m.interfaces, m.frameworks, m.rendezvous,
                 m.problem);
  } else if constexpr (std::is_same_v<T, MeasurePeer>) {
    return codec(m.rendezvous);
  } else if constexpr (std::is_same_v<T, Measurement>) {
    return codec(m.via, m.round_trip_ns, m.bytes_per_second, m.problem);
  } else {
    return Status::ok();
  }
}

using Decode = Result<Message> (*)(ConstBytes);

// Rejects trailing bytes: both sides have the same version, so they are an error.
template <typename T>
Result<Message> decode_as(ConstBytes bytes) {
  FieldReader reader(bytes);
  T message;
  HVD_TRY(fields(reader, message));
  HVD_TRY(reader.in.finish());
  return Message(std::move(message));
}

// A table of decoders, indexed by the first byte of a message.
template <size_t... Kinds>
constexpr auto decoders(std::index_sequence<Kinds...>) {
  return std::array<Decode, sizeof...(Kinds)>{
      decode_as<std::variant_alternative_t<Kinds, Message>>...};
}

}  // namespace

// Layout: see protocol.h.
ByteBuffer encode(const Message& message) {
  FieldWriter writer;
  writer.out.put(static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& m) { (void)fields(writer, m); }, message);
  return writer.out.take();
}

Result<Message> decode(ConstBytes bytes) {
  static constexpr auto kDecoders =
      decoders(std::make_index_sequence<std::variant_size_v<Message>>());
  uint8_t kind = 0;
  HVD_TRY(Decoder(bytes).get(kind));
  if (kind >= kDecoders.size()) {
    return invalid_argument("malformed record: an unknown kind of message");
  }
  return kDecoders[kind](bytes.subspan(1));
}

}  // namespace hvd::launcher
