// SPDX-License-Identifier: Apache-2.0
// The one place where codes of hvd.h become Python exceptions, which have the code as `code`.
#pragma once

#include "capi/hvd.h"
#include "python.h"
#include "signals.h"

namespace hvd::python {

// Who is to blame when ranks disagree or a call came at the wrong time.
enum class Blame {
  kJob,     // HorovodInternalError: what was submitted did not fit what the others submitted
  kCaller,  // ValueError: a setting or an argument is not as the call needs it
  // As kJob, and HorovodInternalError also for an argument: reducescatter has always refused an op
  // so.
  kRefusedOp,
};

// Looks up the classes in horovod.common.exceptions. False with an exception set.
bool load_exceptions();

// Sets the exception for the call of this thread that has just failed, and returns null. After
// HVD_INTERRUPTED it is set already.
PyObject* raise(hvd_code code, Blame blame = Blame::kJob);
// The same for a call of another thread.
PyObject* raise(const Outcome& outcome, Blame blame = Blame::kJob);
// The same for hvd_init.
PyObject* raise_start_failure(hvd_code code);
// None, or what raise() returns.
PyObject* none_or_raise(hvd_code code, Blame blame = Blame::kJob);
PyObject* none_or_raise(const Outcome& outcome, Blame blame = Blame::kJob);
PyObject* raise_not_initialized();

}  // namespace hvd::python
