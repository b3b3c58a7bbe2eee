// SPDX-License-Identifier: Apache-2.0
// A rank that starts, waits for all other ranks, and ends: the smallest program for timing a
// launcher.
#include "capi/hvd.hpp"

int main() {
  hvd::init();
  hvd::barrier();
  hvd::shutdown();
  return 0;
}
