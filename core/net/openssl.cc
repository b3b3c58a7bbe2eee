// SPDX-License-Identifier: Apache-2.0
#include "net/openssl.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>

namespace hvd {

void prepare_openssl() noexcept {
  EVP_MD_free(EVP_MD_fetch(nullptr, "SHA2-256", nullptr));
  EVP_MAC_free(EVP_MAC_fetch(nullptr, OSSL_MAC_NAME_HMAC, nullptr));
  EVP_KDF_free(EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr));
  EVP_CIPHER_free(EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr));
  // The kinds of algorithms that only TLS needs: key management, key exchange, random numbers.
  SSL_CTX_free(SSL_CTX_new(TLS_method()));
  ERR_clear_error();
}

}  // namespace hvd
