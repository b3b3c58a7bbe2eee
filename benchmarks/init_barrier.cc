// SPDX-License-Identifier: Apache-2.0
// A rank that does no more than to start, to wait for all others, and to end.
#include "capi/hvd.hpp"

int main() {
  hvd::init();
  hvd::barrier();
  hvd::shutdown();
  return 0;
}
