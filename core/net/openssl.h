// SPDX-License-Identifier: Apache-2.0
// What a failed call of OpenSSL becomes where no argument of it can be wrong: what it lacks is
// memory.
#pragma once

#include <openssl/err.h>

#include <new>
#include <stdexcept>

namespace hvd {

// Has OpenSSL ask its provider for every kind of algorithm that we use. Called when the library is
// loaded, while there is memory: OpenSSL 3.0 notes that it has asked for a kind before it keeps the
// answer. If memory runs out in between, it finds no algorithm of that kind ever again ("digital
// envelope routines::unsupported"), and the process could not join a job any more.
void prepare_openssl() noexcept;

// Throws bad_alloc, or a runtime_error with the library's words if it says something else.
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

// The object that a call has made.
template <typename T>
T* require_openssl(T* made) {
  if (made == nullptr) openssl_failed();
  return made;
}

}  // namespace hvd
