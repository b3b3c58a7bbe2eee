// SPDX-License-Identifier: Apache-2.0
// The rendezvous server and its clients (hvd_store in hvd.h), for code that starts ranks itself.
//
// A client is one connection: only one thread at a time may use it. Calls of a client wait without
// the GIL, and run signal handlers meanwhile.
#pragma once

#include "python.h"

namespace hvd::python {

// The array ends with an empty entry and lives as long as the process.
PyMethodDef* rendezvous_methods();

}  // namespace hvd::python
