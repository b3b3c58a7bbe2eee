// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while the library waits. Python runs signal handlers on its main thread, and only when
// that thread checks for them, so a call that waits without a check can only be killed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "capi/hvd.h"
#include "python.h"

namespace hvd::python {

// WithoutGil for calls that hvd_set_interrupt can end. Such a call returns HVD_INTERRUPTED after a
// signal handler has raised an exception, which is then set. The scope belongs to one thread.
class InterruptibleWithoutGil {
 public:
  InterruptibleWithoutGil() : state_(PyEval_SaveThread()) { hvd_set_interrupt(ask, this); }
  ~InterruptibleWithoutGil() {
    hvd_set_interrupt(nullptr, nullptr);
    PyEval_RestoreThread(state_);
  }
  InterruptibleWithoutGil(const InterruptibleWithoutGil&) = delete;
  InterruptibleWithoutGil& operator=(const InterruptibleWithoutGil&) = delete;

 private:
  // The callback of hvd_set_interrupt: takes the GIL, runs signal handlers, and releases it.
  static int ask(void* self);
  PyThreadState* state_;
};

// The result of a call on another thread.
struct Outcome {
  hvd_code code = HVD_OK;
  std::string error = {};  // hvd_error() of that thread
  int32_t value = 0;

  static Outcome of(hvd_code code, int32_t value = 0) {
    return {code, code == HVD_OK ? "" : hvd_error(), value};
  }
};

// For calls in which other ranks take part, so that they must not stop before their end. Makes the
// call on a thread of its own ("hvd-call"), and waits for it without the GIL. Returns nothing, with
// an exception set, if a signal handler raised one. The call then continues in the background, so
// it must own everything that it uses, and it must not touch Python objects.
std::optional<Outcome> run_aside(const std::function<Outcome()>& call);

}  // namespace hvd::python
