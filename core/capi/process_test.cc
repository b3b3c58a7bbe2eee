// SPDX-License-Identifier: Apache-2.0
// Behaviour of Process that hvd.h does not show.
#include "capi/process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "testing/assertions.h"

namespace hvd {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Process, TheEndOfAnOldJobIsNotTakenForThatOfTheNext) {
  setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", "0.5", 1);
  Process& process = Process::current();
  ASSERT_OK(process.start({}));
  std::shared_ptr<Job> old = process.job();
  process.shutdown();  // gives up, because the test holds the job
  ASSERT_OK(process.start({}));
  std::shared_ptr<Job> next = process.job();
  old.reset();
  const auto start = Clock::now();
  process.shutdown();
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(500)) << "the test holds the next job";
}

}  // namespace
}  // namespace hvd
