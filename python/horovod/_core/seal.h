// SPDX-License-Identifier: Apache-2.0
// Seals of hvd.h, on bytes and bytearrays.
#pragma once

#include "python.h"

namespace hvd::python {

PyMethodDef* seal_methods();

}  // namespace hvd::python
