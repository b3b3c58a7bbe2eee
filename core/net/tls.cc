// SPDX-License-Identifier: Apache-2.0
#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/openssl.h"

namespace hvd {
namespace {

constexpr char kCipher[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherId[] = {0x13, 0x01};
constexpr std::string_view kIdentity = "hvd";
constexpr size_t kRecord = 16384;  // bytes of the longest TLS record
// Bytes that are encrypted before they are sent, and read before they are decrypted. One system
// call for each record of 16 KiB made writing a third more expensive. 64 KiB stay in the cache.
constexpr size_t kBatch = 64 << 10;

// The state behind OpenSSL's BIO: the socket, its buffers and its failures.
struct Wire {
  Fd socket;
  Secret key;
  int error = 0;     // errno of the last failed call
  bool eof = false;  // the peer closed the connection
  // Encrypted bytes that the socket has not taken yet.
  std::vector<std::byte> queue{};
  size_t queue_start = 0;
  // Bytes that have arrived and are not decrypted yet. Null until the handshake is done. Another
  // owner takes the stream at that time and may first wait for the poller, which does not see bytes
  // in a buffer.
  std::unique_ptr<std::array<std::byte, kBatch>> arrived{};
  size_t arrived_begin = 0;
  size_t arrived_end = 0;

  size_t queued() const { return queue.size() - queue_start; }
};

Wire& wire_of(BIO* bio) { return *static_cast<Wire*>(BIO_get_data(bio)); }

// Returns the bytes that the socket took; -1 on a failure, with errno in wire.error.
ssize_t send_some(Wire& wire, const void* data, size_t size) {
  while (true) {
    // OpenSSL's own socket BIO calls write(), which raises SIGPIPE if the peer is gone. SIGPIPE
    // would end the process, and a library must not change the signal handling of its process.
    const ssize_t count = ::send(wire.socket.get(), data, size, MSG_NOSIGNAL);
    if (count >= 0) return count;
    if (errno == EAGAIN) return 0;
    if (errno == EINTR) continue;
    wire.error = errno;
    return -1;
  }
}

// Queues everything; flush() sends it. If a key update could not be written, SSL_read() would stop
// as well, and two peers with full sockets that both change their keys would wait for each other
// forever.
int wire_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  Wire& wire = wire_of(bio);
  const ConstBytes bytes = std::as_bytes(std::span(data, static_cast<size_t>(size)));
  wire.queue.insert(wire.queue.end(), bytes.begin(), bytes.end());
  return size;
}

int nothing_read(BIO* bio, bool eof, int error) {
  Wire& wire = wire_of(bio);
  if (eof) {
    wire.eof = true;
    return 0;
  }
  if (error == EAGAIN || error == EINTR) {
    BIO_set_retry_read(bio);
  } else {
    wire.error = error;
  }
  return -1;
}

int wire_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  Wire& wire = wire_of(bio);
  const int socket = wire.socket.get();
  const auto wanted = static_cast<size_t>(size);
  if (wire.arrived == nullptr) {
    const ssize_t count = ::recv(socket, data, wanted, 0);
    return count > 0 ? static_cast<int>(count) : nothing_read(bio, count == 0, errno);
  }
  if (wire.arrived_begin == wire.arrived_end) {
    const ssize_t count = ::recv(socket, wire.arrived->data(), wire.arrived->size(), 0);
    if (count <= 0) return nothing_read(bio, count == 0, errno);
    wire.arrived_begin = 0;
    wire.arrived_end = static_cast<size_t>(count);
  }
  const size_t count = std::min(wanted, wire.arrived_end - wire.arrived_begin);
  std::memcpy(data, wire.arrived->data() + wire.arrived_begin, count);
  wire.arrived_begin += count;
  return static_cast<int>(count);
}

long wire_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* wire_method() {
  static BIO_METHOD* method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "hvd socket");
    require_openssl(made);
    BIO_meth_set_write(made, wire_write);
    BIO_meth_set_read(made, wire_read);
    BIO_meth_set_ctrl(made, wire_control);
    return made;
  }();
  return method;
}

SSL_SESSION* make_session(SSL* ssl) {
  const Wire& wire = *static_cast<Wire*>(SSL_get_app_data(ssl));
  SSL_SESSION* session = SSL_SESSION_new();
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipherId);
  const auto* key = reinterpret_cast<const unsigned char*>(wire.key.bytes().data());
  if (session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, key, Secret::kSize) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int use_key(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity, size_t* length,
            SSL_SESSION** session) {
  *session = make_session(ssl);
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *length = kIdentity.size();
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, size_t length, SSL_SESSION** session) {
  *session = nullptr;
  const std::string_view name(reinterpret_cast<const char*>(identity), length);
  if (name != kIdentity) return 1;  // unknown identity: without a key the handshake fails
  *session = make_session(ssl);
  return *session != nullptr ? 1 : 0;
}

SSL_CTX* make_context(const SSL_METHOD* method) {
  SSL_CTX* context = SSL_CTX_new(method);
  require_openssl(context);
  require_openssl(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1);
  require_openssl(SSL_CTX_set_ciphersuites(context, kCipher) == 1);
  require_openssl(SSL_CTX_set_num_tickets(context, 0) == 1);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_psk_use_session_callback(context, use_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
  return context;
}

SSL_CTX* make_client_context() {
  SSL_CTX* context = make_context(TLS_client_method());
  // No certificate is trusted: a server without the key cannot offer a certificate instead. (Nor
  // can a client: only a server that has a certificate itself asks for one.)
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return context;
}

SSL_CTX* context_for(TlsStream::Role role) {
  static SSL_CTX* client = make_client_context();
  static SSL_CTX* server = make_context(TLS_server_method());
  return role == TlsStream::Role::kClient ? client : server;
}

std::string library_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  return reason != nullptr ? reason : "unknown reason";
}

class OpenSslStream final : public TlsStream {
 public:
  OpenSslStream(Fd socket, const Secret& key) : wire_{std::move(socket), key} {}
  ~OpenSslStream() override { SSL_free(ssl_); }
  OpenSslStream(const OpenSslStream&) = delete;
  OpenSslStream& operator=(const OpenSslStream&) = delete;

  Status open(Role role) {
    ERR_clear_error();
    ssl_ = SSL_new(context_for(role));
    BIO* bio = ssl_ != nullptr ? BIO_new(wire_method()) : nullptr;
    if (bio == nullptr) return unavailable("TLS: " + library_reason());
    BIO_set_data(bio, &wire_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    SSL_set_app_data(ssl_, &wire_);
    role == Role::kClient ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
    return Status::ok();
  }

  Result<uint32_t> shake_hands() override {
    ERR_clear_error();
    const int outcome = SSL_is_init_finished(ssl_) == 1 ? 1 : SSL_do_handshake(ssl_);
    // Also after a failure: the alert tells the peer the reason.
    const Result<bool> flushed = flush();
    if (outcome != 1) {
      HVD_TRY_ASSIGN(const uint32_t waits_for, blocked_or_failed(outcome));
      HVD_TRY(flushed.status());
      return *flushed ? waits_for : kWritable;
    }
    if (SSL_session_reused(ssl_) != 1) {
      return unauthenticated("TLS: the peer did not use the key of the job");
    }
    HVD_TRY(flushed.status());
    if (!*flushed) return kWritable;
    wire_.arrived = std::make_unique_for_overwrite<std::array<std::byte, kBatch>>();
    return uint32_t{0};
  }

  Result<size_t> read_some(Bytes in) override {
    // The answer to a key update that the peer has requested may still be queued.
    if (wire_.queued() > 0) HVD_TRY(flush().status());
    size_t total = 0;
    while (total < in.size()) {
      ERR_clear_error();
      size_t count = 0;
      const int outcome = SSL_read_ex(ssl_, in.data() + total, in.size() - total, &count);
      if (outcome != 1) {
        // OpenSSL keeps the failure; the next call returns it.
        if (total > 0) break;
        HVD_TRY(blocked_or_failed(outcome).status());
        return size_t{0};
      }
      total += count;
    }
    return total;
  }

  Result<size_t> write_some(ConstBytes out) override { return write_gather({&out, 1}); }

  Result<size_t> write_gather(std::span<const ConstBytes> pieces) override {
    HVD_TRY_ASSIGN(const bool flushed, flush());
    if (!flushed) return size_t{0};
    // The offered bytes begin with the one that the last call encrypted but did not report as
    // taken.
    size_t total = std::exchange(held_back_, 0);
    size_t skip = total;
    for (ConstBytes piece : pieces) {
      const size_t written_before = std::min(skip, piece.size());
      skip -= written_before;
      piece = piece.subspan(written_before);
      while (!piece.empty()) {
        const ConstBytes record = piece.first(std::min(piece.size(), kRecord));
        HVD_TRY(write_record(record));
        total += record.size();
        piece = piece.subspan(record.size());
        if (wire_.queued() < kBatch) continue;
        HVD_TRY_ASSIGN(const bool sent, flush());
        if (!sent) return hold_back(total);
      }
    }
    HVD_CHECK(skip == 0);  // the caller must offer those bytes again
    HVD_TRY_ASSIGN(const bool sent, flush());
    return sent ? total : hold_back(total);
  }

  int fd() const override { return wire_.socket.get(); }
  bool has_buffered() const override {
    return SSL_pending(ssl_) > 0 || wire_.arrived_begin < wire_.arrived_end;
  }
  uint32_t read_waits_for() const override {
    return kReadable | (wire_.queued() > 0 && held_back_ == 0 ? kWritable : 0);
  }

  void change_key_after(uint64_t records) override { records_per_key_ = records; }
  uint64_t key_changes() const override { return key_changes_; }

 private:
  // Reports the last byte as not taken, so that the caller calls again and the rest is sent.
  size_t hold_back(size_t total) {
    held_back_ = 1;
    return total - held_back_;
  }

  Status write_record(ConstBytes record) {
    ERR_clear_error();
    if (records_ == records_per_key_) {
      // The key update is sent before the next record. The peer changes its own key by its own
      // count.
      if (SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return failure();
      records_ = 0;
      ++key_changes_;
    }
    size_t count = 0;
    if (SSL_write_ex(ssl_, record.data(), record.size(), &count) != 1) return failure();
    HVD_CHECK(count == record.size());
    ++records_;
    return Status::ok();
  }

  // Sends queued bytes; true if the socket has taken all of them.
  Result<bool> flush() {
    while (wire_.queued() > 0) {
      const ssize_t sent = send_some(wire_, wire_.queue.data() + wire_.queue_start, wire_.queued());
      if (sent < 0) return failure();
      if (sent == 0) return false;
      wire_.queue_start += static_cast<size_t>(sent);
    }
    wire_.queue.clear();
    wire_.queue_start = 0;
    return true;
  }

  Result<uint32_t> blocked_or_failed(int outcome) {
    switch (SSL_get_error(ssl_, outcome)) {
      case SSL_ERROR_WANT_READ: return kReadable;
      default: return failure();
    }
  }

  Status failure() {
    if (wire_.error != 0) {
      return {StatusCode::kPeerLost, io_error("connection lost", wire_.error).message()};
    }
    if (wire_.eof) return {StatusCode::kPeerLost, "the peer closed the connection"};
    return unauthenticated("TLS: " + library_reason());
  }

  Wire wire_;
  SSL* ssl_ = nullptr;
  size_t held_back_ = 0;  // encrypted bytes that the caller will offer again: 0 or 1
  uint64_t records_per_key_ = kRecordsPerKey;
  uint64_t records_ = 0;  // sent under the present key
  uint64_t key_changes_ = 0;
};

}  // namespace

Result<std::unique_ptr<TlsStream>> TlsStream::create(Fd socket, Role role, const Secret& key) {
  auto stream = std::make_unique<OpenSslStream>(std::move(socket), key);
  HVD_TRY(stream->open(role));
  return std::unique_ptr<TlsStream>(std::move(stream));
}

}  // namespace hvd
