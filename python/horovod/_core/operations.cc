// SPDX-License-Identifier: Apache-2.0
#include "operations.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capi/hvd.h"
#include "errors.h"
#include "output.h"

namespace hvd::python {
namespace {

// A wait checks for signals (Ctrl-C) this often.
constexpr double kSignalSeconds = 0.2;

// The name of capsules that own an operation that is done.
constexpr const char* kKept = "horovod.operation";

// One collective or join. Owned by the table, by a capsule of wait_and_keep(), and by the calls
// that wait for it. The last owner must hold the GIL when it drops the operation, because the
// destructor drops Python references.
struct Operation {
  hvd_operation* handle = nullptr;
  Ref keep;    // owns the memory of inputs and outputs
  Ref result;  // what wait() returns, or the function that makes it from the outputs
  // One entry per tensor if the library allocates the outputs, else empty. allocate_output
  // writes `memory` on any thread; it is read after the operation is done.
  std::vector<hvd_dtype> dtypes;
  std::vector<Memory> memory;
  bool joins = false;

  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { hvd_release(handle); }
};

// The GIL is the lock of all members. The table is never destroyed, because the end of the process
// must not wait for operations.
struct Table {
  int64_t next_handle = 0;
  std::unordered_map<int64_t, std::shared_ptr<Operation>> operations;
  // Operations that were released before they were done. The library still uses their tensors;
  // reap() drops them.
  std::vector<std::shared_ptr<Operation>> abandoned;
};

Table& table() {
  static auto* const kTable = new Table;
  return *kTable;
}

// Drops abandoned operations that are done. Dropping an object can run Python code that calls this
// module again. So the operations first move to `done`, which drops them when this function returns
// and the table is consistent.
void reap() {
  auto& abandoned = table().abandoned;
  if (abandoned.empty()) return;
  std::vector<std::shared_ptr<Operation>> done;
  std::erase_if(abandoned, [&](std::shared_ptr<Operation>& operation) {
    if (hvd_poll(operation->handle) == 0) return false;
    done.push_back(std::move(operation));
    return true;
  });
}

// Arguments --------------------------------------------------------------------------------------

// The arguments of submit(): the first kPositional by position, the rest by keyword, in the order
// in which the call sites write them.
enum Argument : size_t {
  kCollective,
  kLabel,
  kName,
  kViews,
  kProcessSet,
  kKeep,
  kResult,
  kOp,
  kPrescale,
  kPostscale,
  kRoot,
  kSplits,
  kWillWait,
  kArgumentCount,
};
constexpr size_t kPositional = kProcessSet;
constexpr std::array<const char*, kArgumentCount - kPositional> kKeywords = {
    "process_set", "keep", "result", "op", "prescale", "postscale", "root", "splits", "will_wait",
};

// The names of kKeywords as interned strings, which live as long as the process. Python interns the
// keyword names of a call too, so a comparison of addresses finds them.
std::array<PyObject*, kKeywords.size()> keywords;

// Reads the arguments of one call of submit(). The first argument that is wrong sets the exception,
// and ok() is false from then on. Holds borrowed references: use it only during the call.
class Arguments {
 public:
  Arguments(PyObject* const* args, Py_ssize_t positional, PyObject* names)
      : ok_(place(args, positional, names)) {}
  bool ok() const { return ok_; }

  bool has(Argument which) const { return given_[which] != nullptr; }
  // None if it was not given.
  PyObject* object(Argument which) const { return has(which) ? given_[which] : Py_None; }
  // Does not change `number` if the argument was not given. `what` names the argument in the
  // message for a value that is out of range.
  template <typename Number>
  void read(Argument which, const char* what, Number& number) {
    int32_t value = 0;
    if (!ok_ || !has(which)) return;
    ok_ = read_int32(given_[which], what, value);
    number = static_cast<Number>(value);
  }
  void read(Argument which, double& number) {
    if (!ok_ || !has(which)) return;
    number = PyFloat_AsDouble(given_[which]);
    if (number == -1 && PyErr_Occurred() != nullptr) ok_ = false;
  }
  bool truth(Argument which) const { return given_[which] == Py_True; }
  std::string_view text(Argument which) {
    if (!ok_) return {};
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(given_[which], &size);
    ok_ = text != nullptr;
    return ok_ ? std::string_view(text, static_cast<size_t>(size)) : std::string_view();
  }
  // Empty for None.
  std::string_view optional_text(Argument which) {
    return object(which) == Py_None ? std::string_view() : text(which);
  }
  // The id of the process set. A process set that is not registered has no id: it is None here, and
  // fails.
  int32_t process_set() {
    int32_t id = 0;
    if (ok_ && object(kProcessSet) == Py_None) {
      PyErr_SetString(PyExc_ValueError,
                      "the process set is not registered; pass it to hvd.init() or "
                      "hvd.add_process_set(), and do not use it after hvd.remove_process_set()");
      ok_ = false;
    }
    read(kProcessSet, "the number of the process set", id);
    return id;
  }

 private:
  bool place(PyObject* const* args, Py_ssize_t positional, PyObject* names) {
    if (positional != static_cast<Py_ssize_t>(kPositional)) {
      PyErr_Format(PyExc_TypeError, "submit takes %zu positional arguments, not %zd", kPositional,
                   positional);
      return false;
    }
    std::copy_n(args, kPositional, given_.begin());
    const Py_ssize_t count = names == nullptr ? 0 : PyTuple_Size(names);
    size_t at = 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* name = PyTuple_GetItem(names, i);
      at = find_keyword(name, at);
      if (at == kKeywords.size()) {
        PyErr_Format(PyExc_TypeError, "submit has no keyword argument %R", name);
        return false;
      }
      given_[kPositional + at++] = args[positional + i];
    }
    if (has(kProcessSet)) return true;
    PyErr_SetString(PyExc_TypeError, "submit needs the keyword argument process_set");
    return false;
  }

  // The index of a name in kKeywords, or kKeywords.size() if it is not there. The search starts at
  // `from`: callers write keywords in the order of kKeywords, so the first comparison usually
  // matches.
  static size_t find_keyword(PyObject* name, size_t from) {
    for (size_t i = from; i < keywords.size(); ++i) {
      if (keywords[i] == name) return i;
    }
    for (size_t i = 0; i < keywords.size(); ++i) {  // out of order, or built at run time
      if (PyUnicode_CompareWithASCIIString(name, kKeywords[i]) == 0) return i;
    }
    return keywords.size();
  }

  std::array<PyObject*, kArgumentCount> given_{};
  bool ok_;
};

// A tensor as the front end describes it: a tuple (input address, output address, dtype, shape).
// If the output is None, allocate_output() allocates it once its size is known. submit() lets
// `tensor` point into `name` and `shape` only after the vector of views has its final size, because
// growing the vector moves them.
struct View {
  std::string name;
  std::vector<int64_t> shape;
  hvd_tensor tensor{sizeof(hvd_tensor)};
  bool allocates = false;
};

// False with an exception set.
bool read_view(PyObject* tuple, View& view) {
  PyObject* shape =
      PyTuple_Check(tuple) != 0 && PyTuple_Size(tuple) == 4 ? PyTuple_GetItem(tuple, 3) : nullptr;
  if (shape == nullptr || PyTuple_Check(shape) == 0) {
    PyErr_SetString(PyExc_TypeError, "a view is a tuple (input, output, dtype, shape)");
    return false;
  }
  view.tensor.input = PyLong_AsVoidPtr(PyTuple_GetItem(tuple, 0));
  PyObject* output = PyTuple_GetItem(tuple, 1);
  view.allocates = output == Py_None;
  if (!view.allocates) view.tensor.output = PyLong_AsVoidPtr(output);
  int32_t dtype = 0;
  if (!read_int32(PyTuple_GetItem(tuple, 2), "the dtype", dtype)) return false;
  view.tensor.dtype = static_cast<hvd_dtype>(dtype);
  const Py_ssize_t dims = PyTuple_Size(shape);
  view.shape.reserve(static_cast<size_t>(dims));
  for (Py_ssize_t i = 0; i < dims; ++i) {
    view.shape.push_back(PyLong_AsLongLong(PyTuple_GetItem(shape, i)));
  }
  return PyErr_Occurred() == nullptr;
}

// Reads one view, or a list of views for a group. False with an exception set.
bool read_views(PyObject* given, std::vector<View>& views) {
  if (PyList_Check(given) == 0) return read_view(given, views.emplace_back());
  const Py_ssize_t count = PyList_Size(given);
  views.resize(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!read_view(PyList_GetItem(given, i), views[static_cast<size_t>(i)])) return false;
  }
  return true;
}

// Leaves `splits` empty for None, which means equal parts. False with an exception set.
bool read_splits(PyObject* given, std::vector<int32_t>& splits) {
  if (given == Py_None) return true;
  const Py_ssize_t count = PySequence_Size(given);
  if (count == 0) {
    PyErr_SetString(PyExc_ValueError, "there are no splits; one per rank is needed");
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Ref item = Ref::own(PySequence_GetItem(given, i));
    if (!item || !read_int32(item.get(), "a split", splits.emplace_back())) return false;
  }
  return PyErr_Occurred() == nullptr;
}

// Names are "allreduce.loss", and in a group "grouped_allreduce.loss_1of3". The library numbers
// tensors without a name.
void name_views(std::string_view label, std::string_view name, bool group,
                std::vector<View>& views) {
  if (name.empty()) return;
  for (size_t i = 0; i < views.size(); ++i) {
    views[i].name.assign(label).append(1, '.').append(name);
    if (!group) continue;
    char member[48];
    std::snprintf(member, sizeof(member), "_%zuof%zu", i + 1, views.size());
    views[i].name += member;
  }
}

// Submission -------------------------------------------------------------------------------------

// Whether the library refuses the reduction op of this request. This decides the type of the
// exception.
bool refuses_op(const hvd_request& request) {
  return request.collective == HVD_REDUCESCATTER && request.op != HVD_SUM &&
         request.op != HVD_AVERAGE;
}

// The `allocate` callback of a request. Runs on any thread, perhaps without the GIL and before
// hvd_submit returns, so it must not touch Python objects. Null (no memory) fails the operation.
void* allocate_output(void* context, int32_t index, const int64_t* shape, int32_t dims) {
  auto& operation = *static_cast<Operation*>(context);
  const auto at = static_cast<size_t>(index);
  size_t bytes = hvd_dtype_size(operation.dtypes[at]);
  for (int32_t i = 0; i < dims; ++i) bytes *= static_cast<size_t>(shape[i]);
  operation.memory[at] = allocate(bytes);
  return operation.memory[at].get();
}

// Adds a started operation to the table and returns its handle. If Python has no memory for the
// handle, the operation is abandoned, because a started operation cannot be cancelled.
PyObject* remember(std::shared_ptr<Operation> operation) {
  const int64_t handle = table().next_handle++;
  PyObject* number = PyLong_FromLongLong(handle);
  if (number != nullptr) {
    table().operations.emplace(handle, std::move(operation));
  } else {
    table().abandoned.push_back(std::move(operation));
  }
  return number;
}

// Null for an unknown handle. If `handle` is not an integer, an exception is set too.
std::shared_ptr<Operation> find(PyObject* handle) {
  const auto found = table().operations.find(PyLong_AsLongLong(handle));
  return found == table().operations.end() ? nullptr : found->second;
}

// Results ----------------------------------------------------------------------------------------

// A list with one Output per tensor; null with an exception set.
PyObject* outputs_of(Operation& operation) {
  const size_t count = operation.memory.size();
  Ref list = Ref::own(PyList_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; list && i < count; ++i) {
    hvd_output output = {sizeof(output), nullptr, nullptr, 0, nullptr, 0};
    const hvd_code code = hvd_get_output(operation.handle, static_cast<int32_t>(i), &output);
    if (code != HVD_OK) return raise(code);
    PyObject* made = make_output(std::move(operation.memory[i]), operation.dtypes[i], output);
    if (made == nullptr || PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), made) != 0) {
      return nullptr;
    }
  }
  return list.release();
}

// Call it once, after the operation has succeeded: it moves the memory out of the operation.
PyObject* result_of(Operation& operation) {
  if (operation.joins) return PyLong_FromLong(hvd_last_joined(operation.handle));
  if (operation.memory.empty()) return Ref::borrow(operation.result.get()).release();
  const Ref outputs = Ref::own(outputs_of(operation));
  if (!outputs) return nullptr;
  return PyObject_CallFunctionObjArgs(operation.result.get(), outputs.get(), nullptr);
}

// False with an exception set if a signal handler raised one. The operation then continues.
bool wait_until_done(const Operation& operation) {
  while (hvd_poll(operation.handle) == 0) {
    {
      const WithoutGil without_gil;
      (void)hvd_wait(operation.handle, kSignalSeconds);
    }
    if (PyErr_CheckSignals() != 0) return false;
  }
  return true;
}

}  // namespace

// ------------------------------------------------------------------------------------------------

bool intern_keywords() {
  for (size_t i = 0; i < kKeywords.size(); ++i) {
    keywords[i] = PyUnicode_InternFromString(kKeywords[i]);
    if (keywords[i] == nullptr) return false;
  }
  return true;
}

PyObject* submit(PyObject* /*self*/, PyObject* const* args, Py_ssize_t positional,
                 PyObject* names) {
  reap();
  Arguments arguments(args, positional, names);
  hvd_request request = HVD_REQUEST_INIT;
  request.op = HVD_SUM;
  arguments.read(kCollective, "the collective", request.collective);
  const std::string_view label = arguments.text(kLabel);
  request.label = label.data();  // Python's UTF-8 ends with a zero
  const std::string_view name = arguments.optional_text(kName);
  PyObject* given = arguments.object(kViews);
  arguments.read(kOp, "op", request.op);
  arguments.read(kPrescale, request.prescale);
  arguments.read(kPostscale, request.postscale);
  arguments.read(kRoot, "the root rank", request.root);
  request.process_set = arguments.process_set();
  if (arguments.truth(kWillWait)) request.flags |= HVD_WILL_WAIT;
  auto operation = std::make_shared<Operation>();
  operation->keep = Ref::borrow(arguments.object(kKeep));
  operation->result = Ref::borrow(arguments.object(kResult));

  std::vector<View> views;
  std::vector<int32_t> splits;
  if (!arguments.ok() || !read_views(given, views) ||
      !read_splits(arguments.object(kSplits), splits)) {
    return nullptr;
  }
  if (hvd_is_initialized() == 0) return raise_not_initialized();
  name_views(label, name, PyList_Check(given) != 0, views);
  std::vector<hvd_tensor> tensors;
  tensors.reserve(views.size());
  for (View& view : views) {
    view.tensor.name = view.name.c_str();
    view.tensor.shape = view.shape.data();
    view.tensor.dims = static_cast<int32_t>(view.shape.size());
    if (!splits.empty()) {
      view.tensor.splits = splits.data();
      view.tensor.split_count = static_cast<int32_t>(splits.size());
    }
    tensors.push_back(view.tensor);
  }
  if (!views.empty() && views[0].allocates) {
    for (const hvd_tensor& tensor : tensors) operation->dtypes.push_back(tensor.dtype);
    operation->memory.resize(tensors.size());
    request.allocate = allocate_output;
    request.context = operation.get();
  }
  const hvd_code code = hvd_submit(&request, tensors.data(), static_cast<int32_t>(tensors.size()),
                                   &operation->handle);
  if (code != HVD_OK) return raise(code, refuses_op(request) ? Blame::kRefusedOp : Blame::kJob);
  return remember(std::move(operation));
}

PyObject* join(PyObject* /*self*/, PyObject* /*none*/) {
  auto operation = std::make_shared<Operation>();
  operation->joins = true;
  const hvd_code code = hvd_join(&operation->handle);
  if (code != HVD_OK) return raise(code);
  return remember(std::move(operation));
}

PyObject* poll(PyObject* /*self*/, PyObject* handle) {
  const std::shared_ptr<Operation> operation = find(handle);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (operation == nullptr) {
    return PyErr_Format(PyExc_ValueError,
                        "handle %R is unknown: no such operation was started, or it was "
                        "synchronized already",
                        handle);
  }
  return PyBool_FromLong(hvd_poll(operation->handle));
}

PyObject* wait(PyObject* /*self*/, PyObject* handle) {
  const std::shared_ptr<Operation> operation = find(handle);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (operation == nullptr) Py_RETURN_NONE;
  if (!wait_until_done(*operation)) return nullptr;
  const bool first = table().operations.erase(PyLong_AsLongLong(handle)) > 0;
  const hvd_code code = hvd_wait(operation->handle, 0);
  if (code != HVD_OK) return raise(code);
  if (!first) Py_RETURN_NONE;  // another thread took the result
  return result_of(*operation);
}

PyObject* wait_and_keep(PyObject* self, PyObject* handle) {
  std::shared_ptr<Operation> operation = find(handle);
  Ref result = Ref::own(PyErr_Occurred() == nullptr ? wait(self, handle) : nullptr);
  if (!result) return nullptr;
  if (operation == nullptr) {
    return PyErr_Format(PyExc_ValueError, "handle %R is unknown", handle);
  }
  auto owner = std::make_unique<std::shared_ptr<Operation>>(std::move(operation));
  Ref kept = Ref::own(PyCapsule_New(owner.get(), kKept, [](PyObject* capsule) {
    delete static_cast<std::shared_ptr<Operation>*>(PyCapsule_GetPointer(capsule, kKept));
  }));
  if (!kept) return nullptr;
  (void)owner.release();
  return PyTuple_Pack(2, result.get(), kept.get());
}

const hvd_operation* kept_operation(PyObject* kept) {
  const auto* owner = static_cast<std::shared_ptr<Operation>*>(PyCapsule_GetPointer(kept, kKept));
  return owner == nullptr ? nullptr : (*owner)->handle;
}

PyObject* release(PyObject* /*self*/, PyObject* handle) {
  std::shared_ptr<Operation> operation = find(handle);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (operation != nullptr) {
    table().operations.erase(PyLong_AsLongLong(handle));
    if (hvd_poll(operation->handle) == 0) table().abandoned.push_back(std::move(operation));
  }
  Py_RETURN_NONE;
}

PyObject* address_of(PyObject* /*self*/, PyObject* bytes) {
  char* address = PyByteArray_Check(bytes) != 0 ? PyByteArray_AsString(bytes) : nullptr;
  if (address == nullptr) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "a bytearray is needed");
    return nullptr;
  }
  return PyLong_FromVoidPtr(address);
}

void forget_operations() {
  reap();
  Table& all = table();
  std::unordered_map<int64_t, std::shared_ptr<Operation>> forgotten;
  forgotten.swap(all.operations);
  for (auto& [handle, operation] : forgotten) {
    if (hvd_poll(operation->handle) == 0) all.abandoned.push_back(std::move(operation));
  }
}

}  // namespace hvd::python
