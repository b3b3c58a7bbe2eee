// SPDX-License-Identifier: Apache-2.0
// Turns codes of hvd.h into Python exceptions, whose attribute `code` is the code. All exceptions
// of the library are made here. All functions need the GIL.
//
//   HVD_INVALID_ARGUMENT, HVD_ALREADY_EXISTS   ValueError (but see Blame::kRefusedOp)
//   HVD_NOT_FOUND                              KeyError
//   HVD_NOT_INITIALIZED                        NotInitializedError
//   HVD_PRECONDITION                           ValueError or HorovodInternalError, by Blame
//   all others                                 HorovodInternalError
#pragma once

#include "capi/hvd.h"
#include "python.h"
#include "signals.h"

namespace hvd::python {

// The cause of a failure when ranks disagree or a call comes at the wrong time.
enum class Blame {
  kJob,     // HorovodInternalError: the request does not match the requests of the other ranks
  kCaller,  // ValueError: a setting or an argument is wrong for the call
  // As kJob, but HVD_INVALID_ARGUMENT is a HorovodInternalError too: Horovod 0.28 raises it for a
  // reduction op that reducescatter does not support.
  kRefusedOp,
};

// Looks up the classes in horovod.common.exceptions. False with an exception set.
bool load_exceptions();

// Sets the exception for the last call of this thread, which has failed, and returns null. After
// HVD_INTERRUPTED the signal handler has set an exception, which stays.
PyObject* raise(hvd_code code, Blame blame = Blame::kJob);
// The same for a call of another thread.
PyObject* raise(const Outcome& outcome, Blame blame = Blame::kJob);
// The same for hvd_init.
PyObject* raise_start_failure(hvd_code code);
// None for HVD_OK, else raise().
PyObject* none_or_raise(hvd_code code, Blame blame = Blame::kJob);
PyObject* none_or_raise(const Outcome& outcome, Blame blame = Blame::kJob);
PyObject* raise_not_initialized();

}  // namespace hvd::python
