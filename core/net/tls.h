// TLS 1.3 over a connected socket whose peer already proved that it knows the job secret. Both
// sides authenticate with a key derived from it, fresh for this connection: no certificates, no
// tickets, nothing older than TLS 1.3, and ephemeral keys so that a secret that leaks later does
// not open what was recorded before.
#pragma once

#include <memory>

#include "base/status.h"
#include "net/fd.h"
#include "net/secret.h"
#include "net/stream.h"

namespace hvd {

class TlsStream : public Stream {
 public:
  enum class Role { kClient, kServer };
  static Result<std::unique_ptr<TlsStream>> create(Fd socket, Role role, const Secret& key);

  // Goes as far as it can without blocking: 0 when done, else what to poll for before the next
  // call. Reading and writing come after that.
  virtual Result<uint32_t> shake_hands() = 0;
};

}  // namespace hvd
