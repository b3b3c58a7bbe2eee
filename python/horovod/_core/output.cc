// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <new>
#include <string>

namespace hvd::python {
namespace {

// DLPack, version 0 of its C structures: the protocol by which array libraries lend each other
// memory. The members have the names of the specification.
// NOLINTBEGIN(readability-identifier-naming)
struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
// NOLINTEND(readability-identifier-naming)
constexpr int32_t kCpu = 1;
constexpr uint8_t kUnsigned = 1;

// The object that a capsule owns: the DLPack tensor, its shape, and the memory. The consumer of the
// capsule calls the deleter, on any thread and without the GIL.
struct Lent {
  DLManagedTensor tensor{};
  int64_t bytes = 0;
  Memory memory;
};

// The consumer renames a capsule that it takes over. A capsule with its first name still owns the
// memory.
void drop_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;
  auto* tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  tensor->deleter(tensor);
}

// `memory` is null after __dlpack__() has handed it over. The tuples are null in an Output that
// Python code made by calling the type.
struct Output {
  PyObject_HEAD Memory memory;
  size_t bytes;
  PyObject* shape;
  PyObject* received_splits;
};

Output& as_output(PyObject* self) { return *reinterpret_cast<Output*>(self); }

// The members are destroyed by hand: Python allocated the object without a C++ constructor.
void destroy(PyObject* self) {
  Output& output = as_output(self);
  PyTypeObject* type = Py_TYPE(self);
  output.memory.~Memory();
  Py_XDECREF(output.shape);
  Py_XDECREF(output.received_splits);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* raise_taken() {
  PyErr_SetString(PyExc_BufferError, "the memory of this output has been handed over already");
  return nullptr;
}

// Arguments of the protocol, such as a stream, do not matter for host memory.
PyObject* dlpack(PyObject* self, PyObject* /*args*/, PyObject* /*keywords*/) {
  Output& output = as_output(self);
  if (!output.memory) return raise_taken();
  auto lent = std::make_unique<Lent>();
  lent->bytes = static_cast<int64_t>(output.bytes);
  lent->tensor.dl_tensor = {output.memory.get(), {kCpu, 0}, 1, {kUnsigned, 8, 1},
                            &lent->bytes,        nullptr,   0};
  lent->tensor.manager_ctx = lent.get();
  lent->tensor.deleter = [](DLManagedTensor* tensor) {
    delete static_cast<Lent*>(tensor->manager_ctx);
  };
  PyObject* capsule = PyCapsule_New(&lent->tensor, "dltensor", drop_capsule);
  if (capsule == nullptr) return nullptr;
  lent->memory = std::move(output.memory);
  (void)lent.release();
  return capsule;
}

PyObject* dlpack_device(PyObject* /*self*/, PyObject* /*none*/) {
  return Py_BuildValue("(ii)", kCpu, 0);
}

PyObject* to_bytes(PyObject* self, PyObject* /*none*/) {
  const Output& output = as_output(self);
  if (!output.memory) return raise_taken();
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(output.memory.get()),
                                   static_cast<Py_ssize_t>(output.bytes));
}

// None for a null member.
PyObject* or_none(PyObject* object) {
  return Ref::borrow(object == nullptr ? Py_None : object).release();
}
PyObject* get_shape(PyObject* self, void* /*closure*/) { return or_none(as_output(self).shape); }
PyObject* get_received_splits(PyObject* self, void* /*closure*/) {
  return or_none(as_output(self).received_splits);
}

template <typename Number>
PyObject* tuple_of(const Number* numbers, int32_t count) {
  Ref tuple = Ref::own(PyTuple_New(count));
  if (!tuple) return nullptr;
  for (int32_t i = 0; i < count; ++i) {
    PyObject* number = PyLong_FromLongLong(numbers[i]);
    if (number == nullptr || PyTuple_SetItem(tuple.get(), i, number) != 0) return nullptr;
  }
  return tuple.release();
}

// Set by add_output_type(); lives as long as the process.
PyTypeObject* output_type = nullptr;

PyMethodDef methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dlpack)),
     METH_VARARGS | METH_KEYWORDS, "The bytes as a one-dimensional DLPack capsule; once."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "Host memory."},
    {"tobytes", to_bytes, METH_NOARGS, "A copy of the bytes."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef attributes[] = {
    {"shape", get_shape, nullptr, "The shape in elements.", nullptr},
    {"received_splits", get_received_splits, nullptr, "Of an alltoall: rows from each rank.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, nullptr},
};
PyType_Spec spec = {"horovod._core.Output", sizeof(Output), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

Memory allocate(size_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t rounded = (bytes / kAlignment + 1) * kAlignment;  // above 0, also for no bytes
  return Memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
}

bool add_output_type(PyObject* module) {
  output_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (output_type == nullptr) return false;
  PyObject* added = Ref::borrow(reinterpret_cast<PyObject*>(output_type)).release();
  if (PyModule_AddObject(module, "Output", added) == 0) return true;
  Py_DECREF(added);
  return false;
}

PyObject* make_output(Memory memory, hvd_dtype dtype, const hvd_output& output) {
  size_t bytes = hvd_dtype_size(dtype);
  for (int32_t i = 0; i < output.dims; ++i) bytes *= static_cast<size_t>(output.shape[i]);
  auto* made = PyObject_New(Output, output_type);
  if (made == nullptr) return nullptr;
  new (&made->memory) Memory(std::move(memory));
  made->bytes = bytes;
  made->shape = tuple_of(output.shape, output.dims);
  made->received_splits = tuple_of(output.received_splits, output.split_count);
  Ref owner = Ref::own(reinterpret_cast<PyObject*>(made));
  if (made->shape == nullptr || made->received_splits == nullptr) return nullptr;
  return owner.release();
}

}  // namespace hvd::python
