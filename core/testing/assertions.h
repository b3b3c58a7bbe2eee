// SPDX-License-Identifier: Apache-2.0
// EXPECT_OK, ASSERT_OK and EXPECT_CODE: assertions on Status and Result that print the message.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

// Defined under the thread sanitizer, which does not support fork and needs ten times the memory.
#if defined(__SANITIZE_THREAD__)
#define HVD_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HVD_THREAD_SANITIZER 1
#endif
#endif

namespace hvd::testing {

inline const Status& status_of(const Status& status) { return status; }
template <typename T>
const Status& status_of(const Result<T>& result) {
  return result.status();
}

}  // namespace hvd::testing

#define EXPECT_OK(expression)                                                               \
  do {                                                                                      \
    const auto& hvd_outcome = (expression);                                                 \
    EXPECT_TRUE(hvd_outcome.is_ok()) << ::hvd::testing::status_of(hvd_outcome).to_string(); \
  } while (false)
#define ASSERT_OK(expression)                                                               \
  do {                                                                                      \
    const auto& hvd_outcome = (expression);                                                 \
    ASSERT_TRUE(hvd_outcome.is_ok()) << ::hvd::testing::status_of(hvd_outcome).to_string(); \
  } while (false)
#define EXPECT_CODE(expected, expression)                              \
  do {                                                                 \
    const auto& hvd_outcome = (expression);                            \
    EXPECT_EQ(expected, ::hvd::testing::status_of(hvd_outcome).code()) \
        << ::hvd::testing::status_of(hvd_outcome).to_string();         \
  } while (false)
