// SPDX-License-Identifier: Apache-2.0
#include "job.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "capi/classic.h"
#include "capi/hvd.h"
#include "errors.h"
#include "operations.h"
#include "signals.h"

namespace hvd::python {
namespace {

using Ranks = std::vector<int32_t>;

// From any iterable. False with an exception set.
bool read_ranks(PyObject* given, Ranks& ranks) {
  const Ref list = Ref::own(PySequence_List(given));
  if (!list) return false;
  const Py_ssize_t count = PyList_Size(list.get());
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!read_int32(PyList_GetItem(list.get(), i), "a rank", ranks.emplace_back())) return false;
  }
  return true;
}

// A view: `ranks` must outlive it.
hvd_rank_list as_list(const Ranks& ranks) {
  return {ranks.data(), static_cast<int32_t>(ranks.size())};
}

// A list of the numbers that `get` writes into an array. Other threads may add and remove process
// sets meanwhile, so the array can be too small. The loop then calls `get` again, with the size of
// the last answer. All numbers of the list come from one call, so they are consistent.
template <typename Get>
PyObject* list_from(Get get) {
  Ranks numbers;
  int32_t count = 0;
  do {
    numbers.resize(static_cast<size_t>(count));
    const hvd_code code = get(numbers.data(), static_cast<int32_t>(numbers.size()), &count);
    if (code != HVD_OK) return raise(code);
  } while (static_cast<size_t>(count) > numbers.size());
  Ref list = Ref::own(PyList_New(count));
  for (int32_t i = 0; list && i < count; ++i) {
    PyObject* number = PyLong_FromLong(numbers[static_cast<size_t>(i)]);
    if (number == nullptr || PyList_SetItem(list.get(), i, number) != 0) return nullptr;
  }
  return list.release();
}

// Removes the secret of the job from os.environ, which subprocess and multiprocessing pass on to
// children. hvd_init removes it from the environment of the process. An exception that is set stays
// set.
void forget_secret() {
  PyObject* type = nullptr;
  PyObject* error = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &error, &traceback);
  const Ref os = Ref::own(PyImport_ImportModule("os"));
  const Ref environ = Ref::own(os ? PyObject_GetAttrString(os.get(), "environ") : nullptr);
  if (environ) {
    Ref::own(PyObject_CallMethod(environ.get(), "pop", "sO", "_HOROVOD_SECRET_KEY", Py_None));
  }
  PyErr_Restore(type, error, traceback);
}

// init(ranks, process_sets). Ctrl-C ends it, and there is no job then.
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
    const InterruptibleWithoutGil without_gil;
    code = hvd_init(&options);
  }
  forget_secret();
  if (code != HVD_OK) return raise_start_failure(code);
  Py_RETURN_NONE;
}

// Ctrl-C ends only the wait: the shutdown continues, and the next init forgets the operations.
PyObject* shutdown(PyObject* /*self*/, PyObject* /*none*/) {
  const auto ended = run_aside([] {
    hvd_shutdown();
    return Outcome();
  });
  if (!ended) return nullptr;
  forget_operations();
  Py_RETURN_NONE;
}

// hvd_rank and its like return -1 before init.
template <int (*Get)()>
PyObject* rank_or_size(PyObject* /*self*/, PyObject* /*none*/) {
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

// setting(variable, text): the value as the library reads it; None reads the environment.
PyObject* setting(PyObject* /*self*/, PyObject* args) {
  const char* variable = nullptr;
  const char* text = nullptr;
  if (PyArg_ParseTuple(args, "sz", &variable, &text) == 0) return nullptr;
  const char* value = nullptr;
  const hvd_code code = hvd_setting(variable, text, &value);
  return code == HVD_OK ? PyUnicode_FromString(value) : raise(code, Blame::kCaller);
}

PyObject* version(PyObject* /*self*/, PyObject* /*none*/) {
  return PyUnicode_FromString(hvd_version());
}

// Process sets -----------------------------------------------------------------------------------

PyObject* add_process_set(PyObject* /*self*/, PyObject* given) {
  Ranks ranks;
  if (!read_ranks(given, ranks)) return nullptr;
  const auto added = run_aside([ranks] {
    int32_t id = 0;
    const hvd_code code = hvd_add_process_set(as_list(ranks), &id);
    return Outcome::of(code, id);
  });
  if (!added) return nullptr;
  return added->code == HVD_OK ? PyLong_FromLong(added->value) : raise(*added, Blame::kCaller);
}

PyObject* remove_process_set(PyObject* /*self*/, PyObject* given) {
  int32_t id = 0;
  if (!read_int32(given, "the number of the process set", id)) return nullptr;
  const auto done = run_aside([id] {
    int removed = 0;
    const hvd_code code = hvd_remove_process_set(id, &removed);
    return Outcome::of(code, removed);
  });
  if (!done) return nullptr;
  return done->code == HVD_OK ? PyBool_FromLong(done->value) : raise(*done, Blame::kCaller);
}

PyObject* process_sets(PyObject* /*self*/, PyObject* /*none*/) {
  return list_from(hvd_process_sets);
}

PyObject* process_set_ranks(PyObject* /*self*/, PyObject* given) {
  int32_t id = 0;
  if (!read_int32(given, "the number of the process set", id)) return nullptr;
  return list_from([id](int32_t* ranks, int32_t room, int32_t* count) {
    return hvd_process_set_ranks(id, ranks, room, count);
  });
}

// Timeline ---------------------------------------------------------------------------------------

PyObject* start_timeline(PyObject* /*self*/, PyObject* args) {
  const char* path = nullptr;
  int mark_cycles = 0;
  if (PyArg_ParseTuple(args, "sp", &path, &mark_cycles) == 0) return nullptr;
  const auto started = run_aside([path = std::string(path), mark_cycles] {
    return Outcome::of(hvd_start_timeline(path.c_str(), mark_cycles));
  });
  return started ? none_or_raise(*started, Blame::kCaller) : nullptr;
}

PyObject* stop_timeline(PyObject* /*self*/, PyObject* /*none*/) {
  const auto stopped = run_aside([] { return Outcome::of(hvd_stop_timeline()); });
  return stopped ? none_or_raise(*stopped) : nullptr;
}

PyMethodDef methods[] = {
    {"version", version, METH_NOARGS, nullptr},
    {"setting", setting, METH_VARARGS, nullptr},
    {"init", init, METH_VARARGS, nullptr},
    {"shutdown", shutdown, METH_NOARGS, nullptr},
    {"is_initialized", truth<hvd_is_initialized>, METH_NOARGS, nullptr},
    {"rank", rank_or_size<hvd_rank>, METH_NOARGS, nullptr},
    {"size", rank_or_size<hvd_size>, METH_NOARGS, nullptr},
    {"local_rank", rank_or_size<hvd_local_rank>, METH_NOARGS, nullptr},
    {"local_size", rank_or_size<hvd_local_size>, METH_NOARGS, nullptr},
    {"cross_rank", rank_or_size<hvd_cross_rank>, METH_NOARGS, nullptr},
    {"cross_size", rank_or_size<hvd_cross_size>, METH_NOARGS, nullptr},
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
