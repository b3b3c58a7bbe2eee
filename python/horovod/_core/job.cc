#include "job.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "capi/classic.h"
#include "capi/hvd.h"
#include "errors.h"
#include "operations.h"

namespace hvd::python {
namespace {

using Ranks = std::vector<int32_t>;

bool read_ranks(PyObject* given, Ranks& ranks) {
  const Ref list = Ref::own(PySequence_List(given));
  if (!list) return false;
  const Py_ssize_t count = PyList_Size(list.get());
  for (Py_ssize_t i = 0; i < count; ++i) {
    ranks.push_back(static_cast<int32_t>(PyLong_AsLong(PyList_GetItem(list.get(), i))));
  }
  return PyErr_Occurred() == nullptr;
}

hvd_rank_list as_list(const Ranks& ranks) {
  return {ranks.data(), static_cast<int32_t>(ranks.size())};
}

PyObject* list_of(const Ranks& numbers, int32_t count) {
  Ref list = Ref::own(PyList_New(count));
  for (int32_t i = 0; list && i < count; ++i) {
    PyObject* number = PyLong_FromLong(numbers[static_cast<size_t>(i)]);
    if (number == nullptr || PyList_SetItem(list.get(), i, number) != 0) return nullptr;
  }
  return list.release();
}

PyObject* init(PyObject* /*self*/, PyObject* args) {
  PyObject* given_ranks = nullptr;
  PyObject* given_sets = nullptr;
  if (PyArg_ParseTuple(args, "OO", &given_ranks, &given_sets) == 0) return nullptr;
  Ranks ranks;
  if (!read_ranks(given_ranks, ranks)) return nullptr;
  const Ref sets = Ref::own(PySequence_List(given_sets));
  if (!sets) return nullptr;
  std::vector<Ranks> members(static_cast<size_t>(PyList_Size(sets.get())));
  std::vector<hvd_rank_list> lists;
  for (size_t i = 0; i < members.size(); ++i) {
    PyObject* set = PyList_GetItem(sets.get(), static_cast<Py_ssize_t>(i));
    if (!read_ranks(set, members[i])) return nullptr;
    lists.push_back(as_list(members[i]));
  }
  if (hvd_is_initialized() == 0) forget_operations();
  const hvd_init_options options = {sizeof(options), as_list(ranks), lists.data(),
                                    static_cast<int32_t>(lists.size())};
  hvd_code code = HVD_OK;
  {
    const WithoutGil without_gil;
    code = hvd_init(&options);
  }
  if (code != HVD_OK) return raise_start_failure();
  Py_RETURN_NONE;
}

PyObject* shutdown(PyObject* /*self*/, PyObject* /*none*/) {
  {
    const WithoutGil without_gil;
    hvd_shutdown();
  }
  forget_operations();
  Py_RETURN_NONE;
}

template <int (*Get)()>
PyObject* place(PyObject* /*self*/, PyObject* /*none*/) {
  const int value = Get();
  return value < 0 ? raise_not_initialized() : PyLong_FromLong(value);
}

template <int (*Ask)()>
PyObject* truth(PyObject* /*self*/, PyObject* /*none*/) {
  return PyBool_FromLong(Ask() == 1 ? 1 : 0);
}

PyObject* is_homogeneous(PyObject* /*self*/, PyObject* /*none*/) {
  const int value = hvd_is_homogeneous();
  return value < 0 ? raise_not_initialized() : PyBool_FromLong(value);
}

PyObject* nccl_built(PyObject* /*self*/, PyObject* /*none*/) {
  return PyLong_FromLong(horovod_nccl_built());
}

PyObject* version(PyObject* /*self*/, PyObject* /*none*/) {
  return PyUnicode_FromString(hvd_version());
}

// Process sets -----------------------------------------------------------------------------------

PyObject* add_process_set(PyObject* /*self*/, PyObject* given) {
  Ranks ranks;
  if (!read_ranks(given, ranks)) return nullptr;
  int32_t id = 0;
  hvd_code code = HVD_OK;
  {
    const WithoutGil without_gil;
    code = hvd_add_process_set(as_list(ranks), &id);
  }
  return code == HVD_OK ? PyLong_FromLong(id) : raise(code, Blame::kCaller);
}

PyObject* remove_process_set(PyObject* /*self*/, PyObject* given) {
  const auto id = static_cast<int32_t>(PyLong_AsLong(given));
  if (PyErr_Occurred() != nullptr) return nullptr;
  int removed = 0;
  hvd_code code = HVD_OK;
  {
    const WithoutGil without_gil;
    code = hvd_remove_process_set(id, &removed);
  }
  return code == HVD_OK ? PyBool_FromLong(removed) : raise(code, Blame::kCaller);
}

PyObject* process_sets(PyObject* /*self*/, PyObject* /*none*/) {
  int32_t count = 0;
  hvd_code code = hvd_process_sets(nullptr, 0, &count);
  Ranks ids(static_cast<size_t>(count));
  if (code == HVD_OK) code = hvd_process_sets(ids.data(), count, &count);
  if (code != HVD_OK) return raise(code);
  return list_of(ids, std::min(count, static_cast<int32_t>(ids.size())));
}

PyObject* process_set_ranks(PyObject* /*self*/, PyObject* given) {
  const auto id = static_cast<int32_t>(PyLong_AsLong(given));
  if (PyErr_Occurred() != nullptr) return nullptr;
  int32_t count = 0;
  hvd_code code = hvd_process_set_ranks(id, nullptr, 0, &count);
  Ranks ranks(static_cast<size_t>(count));
  if (code == HVD_OK) code = hvd_process_set_ranks(id, ranks.data(), count, &count);
  return code == HVD_OK ? list_of(ranks, count) : raise(code);
}

// Timeline ---------------------------------------------------------------------------------------

PyObject* start_timeline(PyObject* /*self*/, PyObject* args) {
  const char* path = nullptr;
  int mark_cycles = 0;
  if (PyArg_ParseTuple(args, "sp", &path, &mark_cycles) == 0) return nullptr;
  return none_or_raise(hvd_start_timeline(path, mark_cycles), Blame::kCaller);
}

PyObject* stop_timeline(PyObject* /*self*/, PyObject* /*none*/) {
  hvd_code code = HVD_OK;
  {
    const WithoutGil without_gil;
    code = hvd_stop_timeline();
  }
  return none_or_raise(code);
}

PyMethodDef methods[] = {
    {"version", version, METH_NOARGS, nullptr},
    {"init", init, METH_VARARGS, nullptr},
    {"shutdown", shutdown, METH_NOARGS, nullptr},
    {"is_initialized", truth<hvd_is_initialized>, METH_NOARGS, nullptr},
    {"rank", place<hvd_rank>, METH_NOARGS, nullptr},
    {"size", place<hvd_size>, METH_NOARGS, nullptr},
    {"local_rank", place<hvd_local_rank>, METH_NOARGS, nullptr},
    {"local_size", place<hvd_local_size>, METH_NOARGS, nullptr},
    {"cross_rank", place<hvd_cross_rank>, METH_NOARGS, nullptr},
    {"cross_size", place<hvd_cross_size>, METH_NOARGS, nullptr},
    {"is_homogeneous", is_homogeneous, METH_NOARGS, nullptr},
    {"mpi_enabled", truth<horovod_mpi_enabled>, METH_NOARGS, nullptr},
    {"mpi_built", truth<horovod_mpi_built>, METH_NOARGS, nullptr},
    {"gloo_enabled", truth<horovod_gloo_enabled>, METH_NOARGS, nullptr},
    {"gloo_built", truth<horovod_gloo_built>, METH_NOARGS, nullptr},
    {"nccl_built", nccl_built, METH_NOARGS, nullptr},
    {"ddl_built", truth<horovod_ddl_built>, METH_NOARGS, nullptr},
    {"ccl_built", truth<horovod_ccl_built>, METH_NOARGS, nullptr},
    {"cuda_built", truth<horovod_cuda_built>, METH_NOARGS, nullptr},
    {"rocm_built", truth<horovod_rocm_built>, METH_NOARGS, nullptr},
    {"add_process_set", add_process_set, METH_O, nullptr},
    {"remove_process_set", remove_process_set, METH_O, nullptr},
    {"process_sets", process_sets, METH_NOARGS, nullptr},
    {"process_set_ranks", process_set_ranks, METH_O, nullptr},
    {"start_timeline", start_timeline, METH_VARARGS, nullptr},
    {"stop_timeline", stop_timeline, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* job_methods() { return methods; }

}  // namespace hvd::python
