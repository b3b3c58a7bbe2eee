// SPDX-License-Identifier: Apache-2.0
// horovod._core._native: hvd.h for Python. _native.pyi documents each function.
#include "capi/hvd.h"
#include "errors.h"
#include "job.h"
#include "operations.h"
#include "output.h"
#include "python.h"
#include "rendezvous.h"
#include "seal.h"

namespace {

using namespace hvd::python;  // NOLINT(google-build-using-namespace): this file is its list

PyMethodDef operation_methods[] = {
    {"submit", as_method(submit), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"join", join, METH_NOARGS, nullptr},
    {"poll", poll, METH_O, nullptr},
    {"wait", wait, METH_O, nullptr},
    {"wait_and_keep", wait_and_keep, METH_O, nullptr},
    {"release", release, METH_O, nullptr},
    {"address_of", address_of, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// Values of the enumerations of hvd.h, which front ends pass to submit().
struct Constant {
  const char* name;
  int value;
};
constexpr Constant kConstants[] = {
    {"ALLREDUCE", HVD_ALLREDUCE},
    {"ALLGATHER", HVD_ALLGATHER},
    {"BROADCAST", HVD_BROADCAST},
    {"ALLTOALL", HVD_ALLTOALL},
    {"BARRIER", HVD_BARRIER},
    {"REDUCESCATTER", HVD_REDUCESCATTER},
    {"AVERAGE", HVD_AVERAGE},
    {"SUM", HVD_SUM},
    {"ADASUM", HVD_ADASUM},
    {"MIN", HVD_MIN},
    {"MAX", HVD_MAX},
    {"PRODUCT", HVD_PRODUCT},
    {"UINT8", HVD_UINT8},
    {"INT8", HVD_INT8},
    {"UINT16", HVD_UINT16},
    {"INT16", HVD_INT16},
    {"INT32", HVD_INT32},
    {"INT64", HVD_INT64},
    {"FLOAT16", HVD_FLOAT16},
    {"FLOAT32", HVD_FLOAT32},
    {"FLOAT64", HVD_FLOAT64},
    {"BOOL", HVD_BOOL},
    {"BFLOAT16", HVD_BFLOAT16},
    {"UINT32", HVD_UINT32},
    {"UINT64", HVD_UINT64},
    {"SEAL_BYTES", HVD_SEAL_BYTES},
};

// Fills a new module. -1 with an exception set.
int fill(PyObject* module) {
  if (!load_exceptions() || !intern_keywords() || !add_output_type(module)) return -1;
  for (PyMethodDef* methods :
       {operation_methods, job_methods(), seal_methods(), rendezvous_methods()}) {
    if (PyModule_AddFunctions(module, methods) != 0) return -1;
  }
  for (const Constant& constant : kConstants) {
    if (PyModule_AddIntConstant(module, constant.name, constant.value) != 0) return -1;
  }
  return 0;
}

// Slots hold functions as void*, which C++ does not convert implicitly.
PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(fill)},
    {0, nullptr},
};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", nullptr, 0, nullptr, slots, nullptr, nullptr, nullptr};

}  // namespace

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): Python's name
PyMODINIT_FUNC PyInit__native() { return PyModuleDef_Init(&definition); }
