// SPDX-License-Identifier: Apache-2.0
// Operations that Python code has started, by handle (a number that counts up from 0).
//
// An operation owns references to the objects whose memory the library reads and writes. So a
// tensor that the program drops lives until its operation is done.
//
// The caller of every function holds the GIL, which also protects the table of operations.
// Functions that wait release the GIL while they wait. On failure a function returns null with a
// Python exception set (errors.h).
#pragma once

#include "capi/hvd.h"
#include "python.h"

namespace hvd::python {

// Called once, before submit(). False with an exception set.
bool intern_keywords();
// `args` holds the positional arguments, and then one for each of the keyword `names`.
PyObject* submit(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* names);
// The result of a join is the rank that joined last.
PyObject* join(PyObject* self, PyObject* none);
// ValueError for an unknown handle.
PyObject* poll(PyObject* self, PyObject* handle);
// Waits without a time limit, and runs signal handlers meanwhile. Forgets the handle, unless a
// signal handler raised an exception. Returns None for an unknown handle. If two threads wait for
// one handle, the second thread gets None.
PyObject* wait(PyObject* self, PyObject* handle);
// As wait(); returns a tuple of the result and a capsule that owns the operation, for seals.
PyObject* wait_and_keep(PyObject* self, PyObject* handle);
// Forgets the handle. The operation continues, and its tensors live until it is done.
PyObject* release(PyObject* self, PyObject* handle);
// The address of a bytearray's memory, which stays valid until the bytearray changes its size.
PyObject* address_of(PyObject* self, PyObject* bytes);

// The operation in a capsule of wait_and_keep(), which must outlive the use of the pointer. Null
// with an exception set for any other object.
const hvd_operation* kept_operation(PyObject* kept);

// Called before hvd_init and after hvd_shutdown, when there is no job: forgets all handles.
// Operations that are not done yet keep their tensors.
void forget_operations();

}  // namespace hvd::python
