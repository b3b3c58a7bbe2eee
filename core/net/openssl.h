// What a failed call of OpenSSL becomes where no argument of it can be wrong: what it lacks is
// memory.
#pragma once

#include <openssl/err.h>

#include <new>
#include <stdexcept>

namespace hvd {

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
