// SPDX-License-Identifier: Apache-2.0
// For any bytes, the decoders of the fabric's messages return an error, or a message that encodes
// to the same bytes again.
#include <algorithm>
#include <cstdlib>
#include <span>

#include "transport/tcp/wire.h"

namespace {

template <typename T>
void expect_same(const hvd::Result<T>& decoded, hvd::ConstBytes bytes) {
  if (!decoded.is_ok()) return;
  const hvd::ByteBuffer again = hvd::encode(*decoded);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const hvd::ConstBytes bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 3) {
    case 0: {
      // An address has several spellings, so the bytes may differ; the record must decode again.
      const auto record = hvd::decode_peer_record(bytes);
      if (record.is_ok() && !hvd::decode_peer_record(hvd::encode(*record)).is_ok()) std::abort();
      break;
    }
    case 1: expect_same(hvd::decode_hello(bytes, 8), bytes); break;
    default: expect_same(hvd::decode_watch_message(bytes, 8), bytes); break;
  }
  return 0;
}
