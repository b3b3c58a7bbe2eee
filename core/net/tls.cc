#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

namespace hvd {
namespace {

constexpr char kCipher[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherId[] = {0x13, 0x01};
constexpr std::string_view kIdentity = "hvd";
constexpr size_t kRecord = 16384;  // the most that one TLS record holds

// What the library's socket object needs to know, and what it tells us about failures.
struct Wire {
  Fd socket;
  Secret key;
  int error = 0;     // errno of the last failed call
  bool eof = false;  // the peer closed
};

Wire& wire_of(BIO* bio) { return *static_cast<Wire*>(BIO_get_data(bio)); }

// The library's own socket object calls write(), which raises SIGPIPE when the peer is gone; a
// library must neither die of that signal nor switch it off for the whole process.
int wire_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  Wire& wire = wire_of(bio);
  const ssize_t count = ::send(wire.socket.get(), data, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (count >= 0) return static_cast<int>(count);
  if (errno == EAGAIN || errno == EINTR) {
    BIO_set_retry_write(bio);
  } else {
    wire.error = errno;
  }
  return -1;
}

int wire_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  Wire& wire = wire_of(bio);
  const ssize_t count = ::recv(wire.socket.get(), data, static_cast<size_t>(size), 0);
  if (count > 0) return static_cast<int>(count);
  if (count == 0) {
    wire.eof = true;
    return 0;
  }
  if (errno == EAGAIN || errno == EINTR) {
    BIO_set_retry_read(bio);
  } else {
    wire.error = errno;
  }
  return -1;
}

long wire_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* wire_method() {
  static BIO_METHOD* method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "hvd socket");
    HVD_CHECK(made != nullptr);
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
  if (name != kIdentity) return 1;  // not known: the handshake then fails for want of a key
  *session = make_session(ssl);
  return *session != nullptr ? 1 : 0;
}

SSL_CTX* make_context(const SSL_METHOD* method) {
  SSL_CTX* context = SSL_CTX_new(method);
  HVD_CHECK(context != nullptr);
  HVD_CHECK(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1);
  HVD_CHECK(SSL_CTX_set_ciphersuites(context, kCipher) == 1);
  HVD_CHECK(SSL_CTX_set_num_tickets(context, 0) == 1);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_psk_use_session_callback(context, use_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
  return context;
}

SSL_CTX* make_client_context() {
  SSL_CTX* context = make_context(TLS_client_method());
  // Nobody's certificate is trusted: a server without the key cannot offer one instead. (A client
  // cannot either: it would be asked for one only by a server that has one itself.)
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
    const int outcome = SSL_do_handshake(ssl_);
    if (outcome != 1) return blocked_or_failed(outcome);
    if (SSL_session_reused(ssl_) != 1) {
      return unauthenticated("TLS: the peer did not use the key of the job");
    }
    return uint32_t{0};
  }

  Result<size_t> read_some(Bytes in) override {
    size_t total = 0;
    while (total < in.size()) {
      ERR_clear_error();
      size_t count = 0;
      const int outcome = SSL_read_ex(ssl_, in.data() + total, in.size() - total, &count);
      if (outcome != 1) {
        // A failure stays with the library and is met again by the next call.
        if (total > 0) break;
        HVD_TRY_ASSIGN(read_waits_for_, blocked_or_failed(outcome));
        return size_t{0};
      }
      total += count;
    }
    return total;
  }

  Result<size_t> write_some(ConstBytes out) override { return write_gather({&out, 1}); }

  Result<size_t> write_gather(std::span<const ConstBytes> pieces) override {
    // The record that the last call encrypted goes first, whatever way the caller cuts it now.
    size_t resumed = 0;
    if (!blocked_.empty()) {
      HVD_TRY_ASSIGN(resumed, write_record(blocked_));
      if (resumed == 0) return size_t{0};
      blocked_.clear();
    }
    size_t total = resumed;
    size_t skip = resumed;
    for (ConstBytes piece : pieces) {
      const size_t written_before = std::min(skip, piece.size());
      skip -= written_before;
      piece = piece.subspan(written_before);
      while (!piece.empty()) {
        const ConstBytes record = piece.first(std::min(piece.size(), kRecord));
        HVD_TRY_ASSIGN(const size_t count, write_record(record));
        if (count == 0) {
          blocked_.assign(record.begin(), record.end());
          return total;
        }
        total += count;
        piece = piece.subspan(count);
      }
    }
    HVD_CHECK(skip == 0);  // the caller took back bytes that it had offered
    return total;
  }

  int fd() const override { return wire_.socket.get(); }
  bool has_buffered() const override { return SSL_pending(ssl_) > 0; }
  uint32_t read_waits_for() const override { return read_waits_for_; }
  uint32_t write_waits_for() const override { return write_waits_for_; }

 private:
  // All of `record`, or 0 when the socket is full.
  Result<size_t> write_record(ConstBytes record) {
    ERR_clear_error();
    size_t count = 0;
    const int outcome = SSL_write_ex(ssl_, record.data(), record.size(), &count);
    if (outcome == 1) return count;
    HVD_TRY_ASSIGN(write_waits_for_, blocked_or_failed(outcome));
    return size_t{0};
  }

  Result<uint32_t> blocked_or_failed(int outcome) {
    switch (SSL_get_error(ssl_, outcome)) {
      case SSL_ERROR_WANT_READ: return kReadable;
      case SSL_ERROR_WANT_WRITE: return kWritable;
      default: break;
    }
    if (wire_.error != 0) {
      return Status(StatusCode::kPeerLost, io_error("connection lost", wire_.error).message());
    }
    if (wire_.eof) return Status(StatusCode::kPeerLost, "the peer closed the connection");
    return unauthenticated("TLS: " + library_reason());
  }

  Wire wire_;
  SSL* ssl_ = nullptr;
  std::vector<std::byte> blocked_;  // a record that is encrypted but not yet written
  uint32_t read_waits_for_ = kReadable;
  uint32_t write_waits_for_ = kWritable;
};

}  // namespace

Result<std::unique_ptr<TlsStream>> TlsStream::create(Fd socket, Role role, const Secret& key) {
  auto stream = std::make_unique<OpenSslStream>(std::move(socket), key);
  HVD_TRY(stream->open(role));
  return std::unique_ptr<TlsStream>(std::move(stream));
}

}  // namespace hvd
