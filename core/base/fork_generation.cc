// SPDX-License-Identifier: Apache-2.0
#include "base/fork_generation.h"

#include <pthread.h>

namespace hvd {
namespace {

std::atomic<uint32_t> count{0};
const int kInstalled = pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1); });

}  // namespace

std::atomic<uint32_t>& ForkGeneration::forks() {
  (void)kInstalled;
  return count;
}

}  // namespace hvd
