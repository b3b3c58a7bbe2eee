// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while the library waits. Python's handlers of signals run on its main thread, and only
// when that asks for them: a call that waits without asking can only be killed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "capi/hvd.h"
#include "python.h"

namespace hvd::python {

// WithoutGil for the calls that hvd_set_interrupt can end. Such a call returns HVD_INTERRUPTED when
// a handler of signals has raised an exception, which is then set.
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
  static int ask(void* self);
  PyThreadState* state_;
};

// What became of a call on another thread.
struct Outcome {
  hvd_code code = HVD_OK;
  std::string error = {};  // hvd_error() of that thread
  int32_t value = 0;

  static Outcome of(hvd_code code, int32_t value = 0) {
    return {code, code == HVD_OK ? "" : hvd_error(), value};
  }
};

// For calls that must not stop half-way because other ranks take part in them: makes the call on a
// thread of its own, and waits for it without the GIL. Nothing, with an exception set, if a handler
// of signals has raised one: the call then goes on, so it must own all that it uses.
std::optional<Outcome> run_aside(const std::function<Outcome()>& call);

}  // namespace hvd::python
