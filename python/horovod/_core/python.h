// SPDX-License-Identifier: Apache-2.0
// Python's limited API for the sources of this module, with RAII owners for references and the GIL.
//
// The module is compiled once, for Python 3.9 and all later versions (abi3).
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <utility>

// Both entered the limited API in 3.10, but have been the same in every Python since 3.7 and 3.3.
// METH_FASTCALL saves 40 ns per call. PyUnicode_AsUTF8AndSize saves a bytes object per string.
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
extern "C" const char* PyUnicode_AsUTF8AndSize(PyObject* text,  // NOLINT(*-identifier-naming)
                                               Py_ssize_t* size);
#endif

namespace hvd::python {

// Owns one reference to an object, or none. Needs the GIL for everything except a move and get().
class Ref {
 public:
  Ref() = default;
  // Takes over a new reference, which most functions of Python return.
  static Ref own(PyObject* object) { return Ref(object); }
  // Adds a reference to one that another owner keeps.
  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Ref(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

// False with an exception set if `given` is not an integer that fits into 32 bits. `what` names the
// argument in the message.
inline bool read_int32(PyObject* given, const char* what, int32_t& number) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(given, &overflow);
  if (value == -1 && PyErr_Occurred() != nullptr) return false;
  if (overflow != 0 || value < INT32_MIN || value > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "%s is out of range: %R does not fit into 32 bits", what, given);
    return false;
  }
  number = static_cast<int32_t>(value);
  return true;
}

// Releases the GIL, so that other Python threads run while this one waits. Code in its scope must
// not touch Python objects.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

using FastFunction = PyObject* (*)(PyObject* self, PyObject* const* args, Py_ssize_t positional,
                                   PyObject* names);
// PyMethodDef stores every function as a PyCFunction; the flags of the entry give its real type.
// The cast through void (*)() avoids a warning of GCC about incompatible function types.
inline PyCFunction as_method(FastFunction function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace hvd::python
