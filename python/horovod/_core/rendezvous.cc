// SPDX-License-Identifier: Apache-2.0
#include "rendezvous.h"

#include "capi/hvd.h"
#include "errors.h"
#include "signals.h"

namespace hvd::python {
namespace {

// Python holds servers and clients as capsules of these names, which own them.
constexpr const char* kServer = "horovod.rendezvous_server";
constexpr const char* kClient = "horovod.rendezvous_client";

hvd_store* server_of(PyObject* capsule) {
  return static_cast<hvd_store*>(PyCapsule_GetPointer(capsule, kServer));
}
hvd_store_client* client_of(PyObject* capsule) {
  return static_cast<hvd_store_client*>(PyCapsule_GetPointer(capsule, kClient));
}

PyObject* make_secret(PyObject* /*self*/, PyObject* /*none*/) {
  char text[HVD_SECRET_TEXT];
  hvd_make_secret(text);
  return PyUnicode_FromString(text);
}

// rendezvous_stop() renames the capsule, so that this destructor does not stop the server again.
void stop_server(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kServer) != 0) hvd_store_stop(server_of(capsule));
}

// rendezvous_start(secret, bind, tls): `bind` is an address with or without a port; None for every
// address and any port.
PyObject* rendezvous_start(PyObject* /*self*/, PyObject* args) {
  const char* secret = nullptr;
  const char* bind = nullptr;
  int tls = 0;
  if (PyArg_ParseTuple(args, "szp", &secret, &bind, &tls) == 0) return nullptr;
  hvd_store* server = nullptr;
  const hvd_code code = hvd_store_start(secret, bind, tls, &server);
  if (code != HVD_OK) return raise(code);
  return PyCapsule_New(server, kServer, stop_server);
}

PyObject* rendezvous_port(PyObject* /*self*/, PyObject* capsule) {
  hvd_store* server = server_of(capsule);
  return server == nullptr ? nullptr : PyLong_FromLong(hvd_store_port(server));
}

// Without the GIL, because the end of the server's thread can take a moment.
PyObject* rendezvous_stop(PyObject* /*self*/, PyObject* capsule) {
  hvd_store* server = server_of(capsule);
  if (server == nullptr || PyCapsule_SetName(capsule, "stopped") != 0) return nullptr;
  {
    const WithoutGil without_gil;
    hvd_store_stop(server);
  }
  Py_RETURN_NONE;
}

void drop_client(PyObject* capsule) { hvd_store_disconnect(client_of(capsule)); }

// rendezvous_connect(address, secret, tls, seconds): tries until the time is over.
PyObject* rendezvous_connect(PyObject* /*self*/, PyObject* args) {
  const char* address = nullptr;
  const char* secret = nullptr;
  int tls = 0;
  double seconds = 0;
  if (PyArg_ParseTuple(args, "sspd", &address, &secret, &tls, &seconds) == 0) return nullptr;
  hvd_store_client* client = nullptr;
  hvd_code code = HVD_OK;
  {
    const InterruptibleWithoutGil without_gil;
    code = hvd_store_connect(address, secret, tls, seconds, &client);
  }
  if (code != HVD_OK) return raise(code);
  return PyCapsule_New(client, kClient, drop_client);
}

PyObject* rendezvous_set(PyObject* /*self*/, PyObject* args) {
  PyObject* capsule = nullptr;
  const char* key = nullptr;
  const char* value = nullptr;
  Py_ssize_t bytes = 0;
  if (PyArg_ParseTuple(args, "Osy#", &capsule, &key, &value, &bytes) == 0) return nullptr;
  hvd_store_client* client = client_of(capsule);
  if (client == nullptr) return nullptr;
  hvd_code code = HVD_OK;
  {
    const InterruptibleWithoutGil without_gil;
    code = hvd_store_set(client, key, value, static_cast<size_t>(bytes));
  }
  return none_or_raise(code);
}

// None after `seconds` without a value. `value` belongs to the client until its next call, so it is
// copied before the GIL is released again.
PyObject* rendezvous_get(PyObject* /*self*/, PyObject* args) {
  PyObject* capsule = nullptr;
  const char* key = nullptr;
  double seconds = 0;
  if (PyArg_ParseTuple(args, "Osd", &capsule, &key, &seconds) == 0) return nullptr;
  hvd_store_client* client = client_of(capsule);
  if (client == nullptr) return nullptr;
  const void* value = nullptr;
  size_t bytes = 0;
  hvd_code code = HVD_OK;
  {
    const InterruptibleWithoutGil without_gil;
    code = hvd_store_get(client, key, seconds, &value, &bytes);
  }
  if (code == HVD_TIMEOUT) Py_RETURN_NONE;
  if (code != HVD_OK) return raise(code);
  return PyBytes_FromStringAndSize(static_cast<const char*>(value), static_cast<Py_ssize_t>(bytes));
}

// rendezvous_add(client, key, delta): atomic on the server; returns the new sum.
PyObject* rendezvous_add(PyObject* /*self*/, PyObject* args) {
  PyObject* capsule = nullptr;
  const char* key = nullptr;
  long long delta = 0;
  if (PyArg_ParseTuple(args, "OsL", &capsule, &key, &delta) == 0) return nullptr;
  hvd_store_client* client = client_of(capsule);
  if (client == nullptr) return nullptr;
  int64_t sum = 0;
  hvd_code code = HVD_OK;
  {
    const InterruptibleWithoutGil without_gil;
    code = hvd_store_add(client, key, delta, &sum);
  }
  return code == HVD_OK ? PyLong_FromLongLong(sum) : raise(code);
}

PyObject* rendezvous_delete(PyObject* /*self*/, PyObject* args) {
  PyObject* capsule = nullptr;
  const char* key = nullptr;
  if (PyArg_ParseTuple(args, "Os", &capsule, &key) == 0) return nullptr;
  hvd_store_client* client = client_of(capsule);
  if (client == nullptr) return nullptr;
  hvd_code code = HVD_OK;
  {
    const InterruptibleWithoutGil without_gil;
    code = hvd_store_delete(client, key);
  }
  return none_or_raise(code);
}

PyMethodDef methods[] = {
    {"make_secret", make_secret, METH_NOARGS, nullptr},
    {"rendezvous_start", rendezvous_start, METH_VARARGS, nullptr},
    {"rendezvous_port", rendezvous_port, METH_O, nullptr},
    {"rendezvous_stop", rendezvous_stop, METH_O, nullptr},
    {"rendezvous_connect", rendezvous_connect, METH_VARARGS, nullptr},
    {"rendezvous_set", rendezvous_set, METH_VARARGS, nullptr},
    {"rendezvous_get", rendezvous_get, METH_VARARGS, nullptr},
    {"rendezvous_add", rendezvous_add, METH_VARARGS, nullptr},
    {"rendezvous_delete", rendezvous_delete, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef* rendezvous_methods() { return methods; }

}  // namespace hvd::python
