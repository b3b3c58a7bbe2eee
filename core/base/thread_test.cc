// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "base/function_ref.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

TEST(Thread, HasTheNameItWasStartedWithCutToWhatLinuxKeeps) {
  std::array<char, 32> name{};
  std::thread thread =
      start_thread("hvd-a-very-long-name", [&name, owned = std::make_unique<int>()] {
        pthread_getname_np(pthread_self(), name.data(), name.size());
      });
  thread.join();
  EXPECT_STREQ(name.data(), "hvd-a-very-long");
}

TEST(Thread, ARefusedThreadIsNamedWithTheLimitToRaise) {
  // A stack that does not fit into the address space is refused with the same error as a thread
  // beyond the limit of processes, which does not apply to root. In a child, because the default
  // stack size stays changed.
  const pid_t child = fork();
  if (child == 0) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 47);
    pthread_setattr_default_np(&attributes);
    const Result<std::thread> refused = try_start_thread("hvd-one-more", [] {});
    const bool named = !refused.is_ok() && refused.status().code() == StatusCode::kUnavailable &&
                       refused.status().message() ==
                           "cannot start the thread hvd-one-more; raise the limit of processes "
                           "(ulimit -u, or pids.max of the control group): Resource temporarily "
                           "unavailable";
    _exit(named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(FunctionRef, CallsWhatItBorrowsAndForwardsMoveOnlyArguments) {
  int calls = 0;
  auto count = [&calls](std::unique_ptr<int> by) { return calls += *by; };
  const FunctionRef<int(std::unique_ptr<int>)> ref = count;
  const FunctionRef<int(std::unique_ptr<int>)> copy = ref;
  EXPECT_EQ(ref(std::make_unique<int>(2)), 2);
  EXPECT_EQ(copy(std::make_unique<int>(3)), 5);
}

}  // namespace
}  // namespace hvd
