// SPDX-License-Identifier: Apache-2.0
#include "net/seal.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>
#include <memory>

#include "net/openssl.h"

namespace hvd {
namespace {

// Makes this key differ from all other keys that are derived from the same secret.
constexpr std::string_view kLabel = "hvd sealed bytes, version 1";

// HKDF (RFC 5869) with SHA-256. The secret is random and of full length, so there is no salt.
Secret derive_key(const Secret& secret, std::string_view label) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> method(
      EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr), EVP_KDF_free);
  require_openssl(method.get());
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      EVP_KDF_CTX_new(method.get()), EVP_KDF_CTX_free);
  require_openssl(context.get());
  char digest[] = "SHA256";
  // OpenSSL takes non-const pointers to data that it only reads.
  auto* key = const_cast<std::byte*>(secret.bytes().data());
  auto* info = const_cast<char*>(label.data());
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key, secret.bytes().size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, label.size()), OSSL_PARAM_END};
  std::array<unsigned char, Secret::kSize> derived;
  require_openssl(EVP_KDF_derive(context.get(), derived.data(), derived.size(), parameters) == 1);
  Secret result = Secret::from_bytes(std::as_bytes(std::span(derived)));
  OPENSSL_cleanse(derived.data(), derived.size());
  return result;
}

}  // namespace

Sealer::Sealer(const Secret& secret, ConstBytes job, uint64_t process_set)
    : key_(derive_key(secret, kLabel)), job_(job.begin(), job.end()), process_set_(process_set) {}

Digest Sealer::digest(const SealOrigin& origin, ConstBytes bytes) const {
  Encoder parts;
  parts.put(job_).put(process_set_).put(origin.operation).put(origin.number).put(origin.rank);
  parts.put(static_cast<uint64_t>(bytes.size()));
  return hmac_sha256(key_, {parts.bytes(), bytes});
}

Status Sealer::seal(const SealOrigin& origin, Bytes sealed) const {
  if (sealed.size() < kSize) {
    return invalid_argument("sealed bytes need " + std::to_string(kSize) +
                            " more for the seal; there are " + std::to_string(sealed.size()));
  }
  const Digest digest = this->digest(origin, sealed.first(sealed.size() - kSize));
  std::copy(digest.begin(), digest.end(), sealed.last(kSize).begin());
  return Status::ok();
}

Status Sealer::check(const SealOrigin& origin, ConstBytes sealed) const {
  if (sealed.size() >= kSize) {
    const ConstBytes bytes = sealed.first(sealed.size() - kSize);
    if (equal_in_constant_time(sealed.last(kSize), digest(origin, bytes))) return Status::ok();
  }
  return unauthenticated(
      "\"" + std::string(origin.operation) + "\": refused the data from rank " +
      std::to_string(origin.rank) +
      ", because its seal is wrong. The data was changed, cut, repeated or exchanged on the "
      "network, "
      "and was not used. Find out what is between the hosts; HOROVOD_TLS=1 protects all "
      "connections");
}

}  // namespace hvd
