// SPDX-License-Identifier: Apache-2.0
// Any text: parse() refuses it, or its answer is printed and parsed to the same address again.
#include "net/address.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto endpoint = hvd::Endpoint::parse(text);
  if (!endpoint.is_ok()) return 0;
  const auto again = hvd::Endpoint::parse(endpoint->to_string());
  HVD_CHECK(again.is_ok() && *again == *endpoint);
  return 0;
}
