// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 over a connected socket whose peer has already proved that it has the job secret. Both
// sides authenticate with a pre-shared key that is derived from the secret and new for this
// connection. There are no certificates, no tickets and no older versions of TLS. The key exchange
// is ephemeral: a secret that leaks later does not decrypt recorded traffic.
//
// Threads, ownership and failures are those of Stream; kUnauthenticated if the peer has another key
// or bytes were changed.
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

  // Continues the TLS handshake without blocking: returns 0 when done, else the events to poll for
  // before the next call. Read and write only when it is done.
  virtual Result<uint32_t> shake_hands() = 0;

  // Each side changes its sending key after this many records. RFC 8446, section 5.5 limits one key
  // of AES-GCM to 2^24.5 full records, which are 390 GB.
  static constexpr uint64_t kRecordsPerKey = uint64_t{1} << 22;  // 69 GB
  // For tests, which send less.
  virtual void change_key_after(uint64_t records) = 0;
  // Number of changes of the sending key.
  virtual uint64_t key_changes() const = 0;
};

}  // namespace hvd
