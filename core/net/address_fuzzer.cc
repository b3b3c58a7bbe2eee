// SPDX-License-Identifier: Apache-2.0
// For any text, parse() either refuses it, or parse(to_string()) of its result is the same address.
#include "net/address.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto endpoint = hvd::Endpoint::parse(text);
  if (!endpoint.is_ok()) return 0;
  const auto again = hvd::Endpoint::parse(endpoint->to_string());
  HVD_CHECK(again.is_ok() && *again == *endpoint);
  return 0;
}
