// SPDX-License-Identifier: Apache-2.0
#include "seal.h"

#include <cstddef>

#include "capi/hvd.h"
#include "errors.h"
#include "operations.h"

namespace hvd::python {
namespace {

// seal(operation, data): writes the seal of the first bytes into the last HVD_SEAL_BYTES of `data`.
PyObject* seal(PyObject* /*self*/, PyObject* args) {
  PyObject* kept = nullptr;
  PyObject* data = nullptr;
  if (PyArg_ParseTuple(args, "OO!", &kept, &PyByteArray_Type, &data) == 0) return nullptr;
  const hvd_operation* operation = kept_operation(kept);
  if (operation == nullptr) return nullptr;
  char* bytes = PyByteArray_AsString(data);
  const auto size = static_cast<size_t>(PyByteArray_Size(data));
  hvd_code code = HVD_OK;
  {
    const WithoutGil without_gil;
    code = hvd_seal(operation, bytes, size);
  }
  return none_or_raise(code);
}

// Layout of data[start:]: `length` bytes, then the seal of HVD_SEAL_BYTES. Returns both together.
// If `data` is too short, returns an empty range, for which no seal is right: `length` comes from
// another rank and can be any number.
struct Sealed {
  const char* bytes;
  size_t size;
};
Sealed sealed_in(const char* data, size_t size, long long start, long long length) {
  if (start < 0 || length < 0 || static_cast<size_t>(start) > size) return {data, 0};
  const size_t rest = size - static_cast<size_t>(start);
  if (rest < HVD_SEAL_BYTES || static_cast<size_t>(length) > rest - HVD_SEAL_BYTES) {
    return {data, 0};
  }
  return {data + start, static_cast<size_t>(length) + HVD_SEAL_BYTES};
}

// check_seal(operation, rank, data, start, length): HorovodInternalError unless the seal is right.
PyObject* check_seal(PyObject* /*self*/, PyObject* args) {
  PyObject* kept = nullptr;
  PyObject* data = nullptr;
  int rank = 0;
  long long start = 0;
  long long length = 0;
  if (PyArg_ParseTuple(args, "OiOLL", &kept, &rank, &data, &start, &length) == 0) return nullptr;
  const hvd_operation* operation = kept_operation(kept);
  if (operation == nullptr) return nullptr;
  const bool is_array = PyByteArray_Check(data) != 0;
  const char* bytes = is_array ? PyByteArray_AsString(data) : PyBytes_AsString(data);
  if (bytes == nullptr) return nullptr;
  const Py_ssize_t size = is_array ? PyByteArray_Size(data) : PyBytes_Size(data);
  const Sealed sealed = sealed_in(bytes, static_cast<size_t>(size), start, length);
  hvd_code code = HVD_OK;
  {
    const WithoutGil without_gil;
    code = hvd_check_seal(operation, rank, sealed.bytes, sealed.size);
  }
  return none_or_raise(code);
}

PyMethodDef methods[] = {
    {"seal", seal, METH_VARARGS, nullptr},
    {"check_seal", check_seal, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* seal_methods() { return methods; }

}  // namespace hvd::python
