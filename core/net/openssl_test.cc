// SPDX-License-Identifier: Apache-2.0
#include "net/openssl.h"

#include <openssl/crypto.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/bytes.h"
#include "net/seal.h"
#include "net/tagged_stream.h"
#include "net/tls.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

// Allocations of OpenSSL before the first that fails; all later ones fail too. Below 0: none fails.
int allocations_left = -1;

bool fails() {
  if (allocations_left < 0) return false;
  if (allocations_left == 0) return true;
  --allocations_left;
  return false;
}

void* allocate(size_t size, const char* /*file*/, int /*line*/) {
  return fails() ? nullptr : std::malloc(size);
}

void* reallocate(void* memory, size_t size, const char* /*file*/, int /*line*/) {
  return fails() ? nullptr : std::realloc(memory, size);
}

void release(void* memory, const char* /*file*/, int /*line*/) { std::free(memory); }

const bool kInstalled = CRYPTO_set_mem_functions(allocate, reallocate, release) == 1;

// Uses every part of OpenSSL that a job uses. Returns whether there was enough memory; any other
// failure ends the process.
bool use_openssl() {
  try {
    const Secret secret = Secret::from_bytes(ByteBuffer(Secret::kSize, std::byte{7}));
    Sealer(secret, bytes_of("job"), 0);
    RecordTags tags(secret);
    tags.start();
    (void)tags.finish();
    return TlsStream::create(Fd(), TlsStream::Role::kClient, secret).is_ok();
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::runtime_error&) {
    return false;
  }
}

// Memory runs out at the n-th allocation; afterwards there is memory again. In a process of its
// own, because a failure may leave OpenSSL unusable.
enum class Outcome : int { kEnough = 0, kRecovered = 1, kRuined = 2 };
Outcome run_out_of_memory_at(int n, bool prepared) {
  const pid_t child = fork();
  if (child == 0) {
    if (prepared) prepare_openssl();
    allocations_left = n;
    const bool had_enough = use_openssl();
    allocations_left = -1;
    const Outcome after = use_openssl() ? Outcome::kRecovered : Outcome::kRuined;
    _exit(static_cast<int>(had_enough ? Outcome::kEnough : after));
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "allocation " << n << ", status " << status;
  return static_cast<Outcome>(WEXITSTATUS(status));
}

TEST(OpenSsl, WorksAgainAfterMemoryHasRunOutAnywhereIfItWasPrepared) {
  ASSERT_TRUE(kInstalled);
  constexpr int kMost = 5000;
  int n = 0;
  for (; n < kMost; ++n) {
    const Outcome outcome = run_out_of_memory_at(n, /*prepared=*/true);
    ASSERT_NE(outcome, Outcome::kRuined) << "at allocation " << n;
    if (outcome == Outcome::kEnough) break;
  }
  EXPECT_GT(n, 10);
  EXPECT_LT(n, kMost);
}

}  // namespace
}  // namespace hvd
