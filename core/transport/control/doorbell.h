// SPDX-License-Identifier: Apache-2.0
// What the engine of one rank sleeps on: one futex word, in memory that everybody can address who
// may have news for it: its own threads, and the ranks of its host.
//
// One thread at a time runs an engine; another may be asleep in reserve. Who has news writes it
// first and rings then. Ringing costs one look at the word unless somebody has to be woken, because
// the word says who listens and for what:
//
//   listener: listen(for what) → look for news once more → sleep(), or stop_listening()
//   others:   write news → ring(how urgent)
//
// Both sides put a full fence between their write and their look, so that either the listener sees
// the news or the waker sees the listener.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hvd {

enum class Urgency {
  kUsual,   // of use only to an engine that waits for something
  kUrgent,  // even an idle engine has to hear of it
};

class Doorbell {
 public:
  // Who is woken, and by what.
  enum class Listener : uint32_t {
    kNone = 0,              // somebody runs the engine and looks by itself
    kIdleEngineThread = 1,  // the engine's own thread, with nothing to do: by what is urgent
    kEngineThread = 2,      // the engine's own thread: by anything
    kWaitingThread = 3,     // a thread that waits for a result: by anything
  };

  // Safe from any thread and any process that shares the memory.
  void ring(Urgency urgency);

  void listen(Listener listener);
  void stop_listening() {
    if (listener() != Listener::kNone) listen(Listener::kNone);
  }
  Listener listener() const;
  // Sleeps until the doorbell rings for `listener`, which listens now, or for `at_most`. May return
  // early. Afterwards nobody listens if it rang.
  void sleep(Listener listener, std::chrono::microseconds at_most);

  // For an engine thread in reserve, which sleeps while another listens or nobody does: sleeps only
  // if nothing has changed since ticket(), so that a ring between the two is not lost.
  uint32_t ticket() const { return word_.load(std::memory_order_seq_cst); }
  void sleep_since(uint32_t ticket, Listener listener, std::chrono::microseconds at_most);

 private:
  std::atomic<uint32_t> word_{0};  // who listens, and above that the number of rings
};

}  // namespace hvd
