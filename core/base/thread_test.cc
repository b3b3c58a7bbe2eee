#include "base/thread.h"

#include <pthread.h>

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
