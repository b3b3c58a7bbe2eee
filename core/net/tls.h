// SPDX-License-Identifier: Apache-2.0
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

  // Each side changes the key that it sends with, and tells the other, long before the limit of
  // RFC 8446, section 5.5 for one key of AES-GCM, which is 2^24.5 full records or 390 GB.
  static constexpr uint64_t kRecordsPerKey = uint64_t{1} << 22;  // 69 GB
  // For tests, which do not send that much.
  virtual void change_key_after(uint64_t records) = 0;
  // How often the key for sending was changed.
  virtual uint64_t key_changes() const = 0;
};

}  // namespace hvd
