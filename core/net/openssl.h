// SPDX-License-Identifier: Apache-2.0
// Errors of OpenSSL calls whose arguments cannot be wrong: such a call fails only for lack of
// memory.
#pragma once

#include <openssl/err.h>

#include <new>
#include <stdexcept>

namespace hvd {

// Makes OpenSSL ask its provider for every kind of algorithm that we use. Called when the library
// is loaded, while there is memory: OpenSSL 3.0 records that it has asked for a kind before it
// keeps the answer. If memory runs out in between, it never finds an algorithm of that kind again
// ("digital envelope routines::unsupported"), and the process could not join a job any more.
void prepare_openssl() noexcept;

// Throws std::bad_alloc, or std::runtime_error with the text of OpenSSL if the reason is not
// memory.
[[noreturn]] inline void openssl_failed() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (error == 0 || ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) throw std::bad_alloc();
  char text[256];
  ERR_error_string_n(error, text, sizeof(text));
  throw std::runtime_error(text);
}

inline void require_openssl(bool succeeded) {
  if (!succeeded) openssl_failed();
}

// Returns `made` unless it is null.
template <typename T>
T* require_openssl(T* made) {
  if (made == nullptr) openssl_failed();
  return made;
}

}  // namespace hvd
