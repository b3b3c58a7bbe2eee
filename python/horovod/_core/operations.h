// SPDX-License-Identifier: Apache-2.0
// Operations that Python code has started, by number. They keep alive what the library works on: a
// tensor that the program has dropped meanwhile stays until its operation is done.
#pragma once

#include "capi/hvd.h"
#include "python.h"

namespace hvd::python {

// Called once, before submit(). False with an exception set.
bool intern_keywords();
// `args` holds the positional arguments, and then one for each of the keyword `names`.
PyObject* submit(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* names);
PyObject* join(PyObject* self, PyObject* none);
PyObject* poll(PyObject* self, PyObject* handle);
PyObject* wait(PyObject* self, PyObject* handle);
PyObject* wait_and_keep(PyObject* self, PyObject* handle);
PyObject* release(PyObject* self, PyObject* handle);
PyObject* address_of(PyObject* self, PyObject* bytes);

// What wait_and_keep has kept; null with an exception set if it is something else.
const hvd_operation* kept_operation(PyObject* kept);

// There is no job any more: forgets all operations, and names start anew.
void forget_operations();

}  // namespace hvd::python
