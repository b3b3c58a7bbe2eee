// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <string>

namespace hvd::python {
namespace {

// Classes of horovod.common.exceptions, which live as long as the process.
PyObject* internal_error = nullptr;
PyObject* not_initialized_error = nullptr;
PyObject* start_error = nullptr;
PyObject* error_code = nullptr;

PyObject* class_of(hvd_code code, Blame blame) {
  switch (code) {
    case HVD_INVALID_ARGUMENT:
      return blame == Blame::kRefusedOp ? internal_error : PyExc_ValueError;
    case HVD_ALREADY_EXISTS: return PyExc_ValueError;
    case HVD_PRECONDITION: return blame == Blame::kCaller ? PyExc_ValueError : internal_error;
    case HVD_NOT_FOUND: return PyExc_KeyError;
    default: return internal_error;
  }
}

// Sets an exception of this type with the attribute `code`.
PyObject* raise_as(PyObject* type, hvd_code code, const char* text) {
  const Ref error = Ref::own(PyObject_CallFunction(type, "s", text));
  const Ref number = Ref::own(PyObject_CallFunction(error_code, "i", static_cast<int>(code)));
  if (error && number && PyObject_SetAttrString(error.get(), "code", number.get()) == 0) {
    PyErr_SetObject(type, error.get());
  }
  return nullptr;
}

}  // namespace

bool load_exceptions() {
  const Ref module = Ref::own(PyImport_ImportModule("horovod.common.exceptions"));
  if (!module) return false;
  internal_error = PyObject_GetAttrString(module.get(), "HorovodInternalError");
  not_initialized_error = PyObject_GetAttrString(module.get(), "NotInitializedError");
  start_error = PyObject_GetAttrString(module.get(), "StartError");
  error_code = PyObject_GetAttrString(module.get(), "ErrorCode");
  return internal_error != nullptr && not_initialized_error != nullptr && start_error != nullptr &&
         error_code != nullptr;
}

PyObject* raise_not_initialized() {
  PyErr_SetString(not_initialized_error, "Horovod has not been initialized; call hvd.init() first");
  return nullptr;
}

PyObject* raise(hvd_code code, Blame blame) { return raise(Outcome::of(code), blame); }

PyObject* raise(const Outcome& outcome, Blame blame) {
  if (outcome.code == HVD_INTERRUPTED) return nullptr;
  if (outcome.code == HVD_NOT_INITIALIZED) return raise_not_initialized();
  return raise_as(class_of(outcome.code, blame), outcome.code, outcome.error.c_str());
}

PyObject* raise_start_failure(hvd_code code) {
  if (code == HVD_INTERRUPTED) return nullptr;
  const std::string text = std::string("Horovod initialization failed: ") + hvd_error();
  return raise_as(start_error, code, text.c_str());
}

PyObject* none_or_raise(hvd_code code, Blame blame) {
  return none_or_raise(Outcome::of(code), blame);
}

PyObject* none_or_raise(const Outcome& outcome, Blame blame) {
  if (outcome.code != HVD_OK) return raise(outcome, blame);
  Py_RETURN_NONE;
}

}  // namespace hvd::python
