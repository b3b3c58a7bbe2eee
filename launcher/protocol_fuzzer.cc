// SPDX-License-Identifier: Apache-2.0
// Any input is either decoded or rejected, and a decoded message survives encoding and decoding.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "launcher/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto message = hvd::launcher::decode(bytes);
  if (message.is_ok()) {
    const auto again = hvd::launcher::decode(hvd::launcher::encode(*message));
    if (!again.is_ok() || *again != *message) std::abort();
  }
  return 0;
}
