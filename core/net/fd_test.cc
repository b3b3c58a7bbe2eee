// SPDX-License-Identifier: Apache-2.0
#include "net/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/assertions.h"

namespace hvd {
namespace {

TEST(Fd, AForkedChildKeepsNoConnectionOpenAndClosesNothingElse) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  int lifetime[2];
  ASSERT_EQ(::pipe(lifetime), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(lifetime[1]);
    const int reused = ::open("/dev/null", O_RDONLY);
    const bool closed = reused == ends[0];
    ours.reset();  // as the destructor does
    const bool untouched = ::fcntl(reused, F_GETFD) >= 0;
    char none = 0;
    (void)!::read(lifetime[0], &none, 1);
    ::_exit(closed && untouched ? 0 : 1);
  }
  ours.reset();
  pollfd end{theirs.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 5'000), 1) << "the child keeps the connection open";
  ::close(lifetime[0]);
  ::close(lifetime[1]);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hvd
