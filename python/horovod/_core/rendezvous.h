// SPDX-License-Identifier: Apache-2.0
// The rendezvous server and its clients, for code that starts ranks itself.
#pragma once

#include "python.h"

namespace hvd::python {

PyMethodDef* rendezvous_methods();

}  // namespace hvd::python
