// SPDX-License-Identifier: Apache-2.0
#include "testing/failing_allocations.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace hvd::testing {
namespace {

using Which = FailingAllocations::Which;

std::atomic<bool> armed{false};
std::atomic<Which> which_fail{Which::kNone};
std::atomic<size_t> fail_at{0};
std::atomic<size_t> counted{0};
std::atomic<bool> failed{false};
thread_local int marked = 0;

bool is_victim() {
  if (marked > 0) return true;
  char name[16] = {};
  if (::pthread_getname_np(::pthread_self(), name, sizeof(name)) != 0) return false;
  return std::string_view(name).starts_with(FailingAllocations::kVictimName);
}

bool must_fail() {
  if (!armed.load(std::memory_order_relaxed) || !is_victim()) return false;
  const size_t number = counted.fetch_add(1);
  const Which which = which_fail;
  const bool now =
      (which == Which::kOne && number == fail_at) || (which == Which::kFromN && number >= fail_at);
  if (now) failed = true;
  return now;
}

void* allocate(size_t bytes, size_t alignment) noexcept {
  if (must_fail()) return nullptr;
  if (bytes == 0) bytes = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

}  // namespace

FailingAllocations::FailingAllocations(Which which, size_t n) {
  which_fail = which;
  fail_at = n;
  counted = 0;
  failed = false;
  armed = true;
}
FailingAllocations::~FailingAllocations() { armed = false; }
size_t FailingAllocations::count() { return counted; }
bool FailingAllocations::has_failed() { return failed; }

Victim::Victim() { ++marked; }
Victim::~Victim() { --marked; }

}  // namespace hvd::testing

using hvd::testing::allocate;

// NOLINTBEGIN(misc-definitions-in-headers)
void* operator new(size_t bytes) {
  if (void* memory = allocate(bytes, 0)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (void* memory = allocate(bytes, static_cast<size_t>(alignment))) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 0); }
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return operator new(bytes, alignment);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 0); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
// NOLINTEND(misc-definitions-in-headers)
