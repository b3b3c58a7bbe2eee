// SPDX-License-Identifier: Apache-2.0
#include "net/secret.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "net/openssl.h"

namespace hvd {
namespace {

const unsigned char* raw(ConstBytes bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Fetched once: a fetch searches OpenSSL's tables under a lock.
EVP_MAC* hmac_method() {
  static EVP_MAC* const method = require_openssl(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  return method;
}

}  // namespace

Secret Secret::generate() {
  Secret result;
  fill_random(result.bytes_);
  return result;
}

Secret Secret::from_bytes(ConstBytes bytes) {
  HVD_CHECK(bytes.size() == kSize);
  Secret result;
  std::copy(bytes.begin(), bytes.end(), result.bytes_.begin());
  return result;
}

Result<Secret> Secret::from_base64(std::string_view text) {
  constexpr size_t kTextSize = 44;  // 32 bytes are eleven groups of four characters
  std::array<unsigned char, kTextSize> decoded{};
  bool good = text.size() == kTextSize &&
              EVP_DecodeBlock(decoded.data(), reinterpret_cast<const unsigned char*>(text.data()),
                              kTextSize) > 0;
  Secret result = from_bytes(std::as_bytes(std::span(decoded)).first(kSize));
  OPENSSL_cleanse(decoded.data(), decoded.size());
  // OpenSSL accepts wrong padding and stray bits. Encode again and compare: each secret has exactly
  // one accepted text.
  good = good && result.to_base64() == text;
  if (good) return result;
  return invalid_argument(
      "the job secret has to be 32 bytes in base64 (44 characters); what was "
      "given has " +
      std::to_string(text.size()) + " characters or is not base64");
}

std::string Secret::to_base64() const {
  std::array<unsigned char, 48> text;
  const int length = EVP_EncodeBlock(text.data(), raw(bytes_), kSize);
  std::string result(reinterpret_cast<const char*>(text.data()), length);
  OPENSSL_cleanse(text.data(), text.size());
  return result;
}

Secret::~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

bool operator==(const Secret& a, const Secret& b) {
  return equal_in_constant_time(a.bytes_, b.bytes_);
}

struct Hmac::Context {
  EVP_MAC_CTX* mac = nullptr;
  Context() : mac(require_openssl(EVP_MAC_CTX_new(hmac_method()))) {}
  ~Context() { EVP_MAC_CTX_free(mac); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

Hmac::Hmac(const Secret& key) : context_(std::make_unique<Context>()) {
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_END};
  require_openssl(EVP_MAC_init(context_->mac, raw(key.bytes()), Secret::kSize, parameters) == 1);
}

Hmac::Hmac(Hmac&&) noexcept = default;
Hmac& Hmac::operator=(Hmac&&) noexcept = default;
Hmac::~Hmac() = default;

Digest Hmac::operator()(std::initializer_list<ConstBytes> parts) {
  require_openssl(EVP_MAC_init(context_->mac, nullptr, 0, nullptr) ==
                  1);  // starts a new message under the same key
  for (const ConstBytes part : parts) {
    require_openssl(EVP_MAC_update(context_->mac, raw(part), part.size()) == 1);
  }
  Digest digest;
  size_t length = 0;
  require_openssl(EVP_MAC_final(context_->mac, reinterpret_cast<unsigned char*>(digest.data()),
                                &length, digest.size()) == 1 &&
                  length == digest.size());
  return digest;
}

Digest hmac_sha256(const Secret& key, std::initializer_list<ConstBytes> parts) {
  return Hmac(key)(parts);
}

bool equal_in_constant_time(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_random(Bytes out) {
  // From the kernel, not from OpenSSL: OpenSSL's generator allocates memory when it starts, and
  // fails if there is none.
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    HVD_CHECK(got >= 0 || errno == EINTR);
    if (got > 0) out = out.subspan(static_cast<size_t>(got));
  }
}

}  // namespace hvd
