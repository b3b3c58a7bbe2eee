// SPDX-License-Identifier: Apache-2.0
#include "net/resolver.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/mutex.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(seconds(20)); }
Deadline now() { return Deadline::after(milliseconds(1)); }

// A name server that answers when the test permits. Shared, because a look-up may outlive its
// caller.
class Gate {
 public:
  void open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  Result<std::vector<Endpoint>> answer() {
    MutexLock lock(mutex_);
    ++asked_;
    while (!open_ && changed_.wait(mutex_, soon())) {
    }
    ++answered_;
    changed_.notify_all();
    return std::vector<Endpoint>{Endpoint::loopback(), Endpoint::loopback_v6()};
  }
  void wait_until_answered(int count) {
    MutexLock lock(mutex_);
    while (answered_ < count && changed_.wait(mutex_, soon())) {
    }
  }
  int asked() {
    MutexLock lock(mutex_);
    return asked_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ HVD_GUARDED_BY(mutex_) = false;
  int asked_ HVD_GUARDED_BY(mutex_) = 0;
  int answered_ HVD_GUARDED_BY(mutex_) = 0;
};

TEST(Resolver, GivesThePortToEachAddressAndPassesAFailureOn) {
  Resolver resolver([](const std::string& host) -> Result<std::vector<Endpoint>> {
    if (host != "known") return not_found("no " + host);
    return std::vector<Endpoint>{Endpoint::loopback(), Endpoint::loopback_v6()};
  });
  EXPECT_THAT(*resolver.resolve("known", 7, soon()),
              ElementsAre(Endpoint::loopback(7), Endpoint::loopback_v6(7)));
  EXPECT_THAT(*resolver.resolve("::1", 8, now()), ElementsAre(Endpoint::loopback_v6(8)));
  const auto unknown = resolver.resolve("unknown", 7, soon());
  EXPECT_CODE(StatusCode::kNotFound, unknown);
  EXPECT_EQ(unknown.status().message(), "no unknown");
}

TEST(Resolver, ALookUpThatThrowsIsAnError) {
  Resolver resolver(
      [](const std::string&) -> Result<std::vector<Endpoint>> { throw std::bad_alloc(); });
  EXPECT_CODE(StatusCode::kUnavailable, resolver.resolve("any", 7, soon()));
}

TEST(Resolver, ACallerEndsAtItsDeadlineAndTheNextOneJoinsTheSameLookUp) {
  const auto gate = std::make_shared<Gate>();
  Resolver resolver([gate](const std::string&) { return gate->answer(); });
  for (int i = 0; i < 10; ++i) {
    const auto late = resolver.resolve("slow", 7, now());
    EXPECT_CODE(StatusCode::kTimeout, late);
    EXPECT_THAT(late.status().message(), HasSubstr("host \"slow\""));
  }
  EXPECT_LE(gate->asked(), 1);  // one thread for ten tries
  std::thread opening([&] { gate->open(); });
  EXPECT_OK(resolver.resolve("slow", 7, soon()));
  opening.join();
  EXPECT_EQ(gate->asked(), 1);
  EXPECT_OK(resolver.resolve("slow", 7, soon()));
  EXPECT_EQ(gate->asked(), 2);  // results are not cached
}

TEST(Resolver, ALookUpThatWasLeftBehindOutlivesTheResolver) {
  const auto gate = std::make_shared<Gate>();
  {
    Resolver resolver([gate](const std::string&) { return gate->answer(); });
    EXPECT_CODE(StatusCode::kTimeout, resolver.resolve("slow", 7, now()));
  }
  gate->open();
  gate->wait_until_answered(1);
}

#if !defined(HVD_THREAD_SANITIZER)  // it does not support threads in a forked child
TEST(Resolver, AForkedChildLooksUpByItself) {
  const pid_t parent = getpid();
  const auto gate = std::make_shared<Gate>();
  Resolver resolver([gate, parent](const std::string&) -> Result<std::vector<Endpoint>> {
    if (getpid() != parent) return std::vector<Endpoint>{Endpoint::loopback()};
    return gate->answer();
  });
  EXPECT_CODE(StatusCode::kTimeout, resolver.resolve("slow", 7, now()));
  const pid_t child = fork();
  // The child does not have the thread of its parent's look-up.
  if (child == 0) _exit(resolver.resolve("slow", 7, soon()).is_ok() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  gate->open();
  EXPECT_OK(resolver.resolve("slow", 7, soon()));
}
#endif

}  // namespace
}  // namespace hvd
