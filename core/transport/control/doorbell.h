// SPDX-License-Identifier: Apache-2.0
// The engine of one rank sleeps on its doorbell: one futex word, in memory that its own threads and
// the ranks of its host can address.
//
// One thread at a time runs an engine; the engine thread may sleep meanwhile. A sender first writes
// its message, then rings. The word holds the listener: which thread sleeps, and for which urgency
// it must be woken. So a ring that wakes no thread costs one load of the word:
//
//   word:      | number of rings (30 bits) | Listener (2 bits) |
//   listener:  listen(kind) → check for messages once more → sleep(), or stop_listening()
//   sender:    write the message → ring(urgency)
//
// Both sides have a full fence between their write and their load. So either the listener sees the
// message or the sender sees the listener.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hvd {

enum class Urgency {
  kUsual,   // wakes only an engine that has operations in flight
  kUrgent,  // also wakes an idle engine
};

// ring() is safe from any thread and any process that shares the memory. The other calls belong to
// the threads of the rank that owns the doorbell. Zeroed memory is a valid doorbell.
class Doorbell {
 public:
  // Which thread sleeps, and which rings wake it. The order matters: ring() compares.
  enum class Listener : uint32_t {
    kNone = 0,              // a thread runs the engine and polls; no ring is needed
    kIdleEngineThread = 1,  // the engine thread, without work: only urgent rings
    kEngineThread = 2,      // the engine thread: all rings
    kWaitingThread = 3,     // a thread that waits for a result: all rings
  };

  void ring(Urgency urgency);

  void listen(Listener listener);
  void stop_listening() {
    if (listener() != Listener::kNone) listen(Listener::kNone);
  }
  Listener listener() const;
  // Sleeps until the doorbell rings for `listener`, which is the current listener, or for
  // `at_most`. May return early. A ring resets the listener to kNone.
  void sleep(Listener listener, std::chrono::microseconds at_most);

  // For an engine thread that sleeps while another thread runs the engine or listens. sleep_since()
  // sleeps only if the word has not changed since ticket(), so that a ring in between is not lost.
  uint32_t ticket() const { return word_.load(std::memory_order_seq_cst); }
  void sleep_since(uint32_t ticket, Listener listener, std::chrono::microseconds at_most);

 private:
  std::atomic<uint32_t> word_{0};  // the listener, and above it the number of rings
};

}  // namespace hvd
