#include "errors.h"

namespace hvd::python {
namespace {

// They live as long as the process.
PyObject* internal_error = nullptr;
PyObject* not_initialized_error = nullptr;
PyObject* start_error = nullptr;

PyObject* class_of(hvd_code code, Blame blame) {
  switch (code) {
    case HVD_INVALID_ARGUMENT:
    case HVD_ALREADY_EXISTS: return PyExc_ValueError;
    case HVD_PRECONDITION: return blame == Blame::kCaller ? PyExc_ValueError : internal_error;
    case HVD_NOT_FOUND: return PyExc_KeyError;
    default: return internal_error;
  }
}

}  // namespace

bool load_exceptions() {
  const Ref module = Ref::own(PyImport_ImportModule("horovod.common.exceptions"));
  if (!module) return false;
  internal_error = PyObject_GetAttrString(module.get(), "HorovodInternalError");
  not_initialized_error = PyObject_GetAttrString(module.get(), "NotInitializedError");
  start_error = PyObject_GetAttrString(module.get(), "StartError");
  return internal_error != nullptr && not_initialized_error != nullptr && start_error != nullptr;
}

PyObject* raise_not_initialized() {
  PyErr_SetString(not_initialized_error, "Horovod has not been initialized; call hvd.init() first");
  return nullptr;
}

PyObject* raise(hvd_code code, Blame blame) {
  if (code == HVD_NOT_INITIALIZED) return raise_not_initialized();
  PyErr_SetString(class_of(code, blame), hvd_error());
  return nullptr;
}

PyObject* raise_start_failure() {
  PyErr_Format(start_error, "Horovod initialization failed: %s", hvd_error());
  return nullptr;
}

PyObject* none_or_raise(hvd_code code, Blame blame) {
  if (code != HVD_OK) return raise(code, blame);
  Py_RETURN_NONE;
}

}  // namespace hvd::python
