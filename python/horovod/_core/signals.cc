// SPDX-License-Identifier: Apache-2.0
#include "signals.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace hvd::python {
namespace {

// How often run_aside() checks for signals: short enough for a user who presses Ctrl-C.
constexpr std::chrono::milliseconds kSignalInterval{100};

// Shared by the caller and the thread of the call, which may outlive the caller's wait.
struct Call {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Outcome> outcome;
};

}  // namespace

int InterruptibleWithoutGil::ask(void* self) {
  auto& wait = *static_cast<InterruptibleWithoutGil*>(self);
  PyEval_RestoreThread(wait.state_);
  const int raised = PyErr_CheckSignals();
  wait.state_ = PyEval_SaveThread();
  return raised;
}

std::optional<Outcome> run_aside(const std::function<Outcome()>& call) {
  const auto shared = std::make_shared<Call>();
  try {
    std::thread([shared, call] {
      (void)pthread_setname_np(pthread_self(), "hvd-call");
      Outcome outcome = call();
      const std::lock_guard lock(shared->mutex);
      shared->outcome = std::move(outcome);
      shared->done.notify_one();
    }).detach();
  } catch (const std::system_error&) {  // no thread can start: make the call without signals
    const WithoutGil without_gil;
    return call();
  }
  while (true) {
    {
      const WithoutGil without_gil;
      std::unique_lock lock(shared->mutex);
      if (shared->done.wait_for(lock, kSignalInterval, [&] { return shared->outcome.has_value(); }))
        return std::move(shared->outcome);
    }
    if (PyErr_CheckSignals() != 0) return std::nullopt;
  }
}

}  // namespace hvd::python
