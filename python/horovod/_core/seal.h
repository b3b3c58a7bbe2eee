// SPDX-License-Identifier: Apache-2.0
// Seals of hvd.h on bytes and bytearrays: proofs that a rank of this job has sent data for a
// certain operation. The functions release the GIL while they compute; the caller must not resize
// the data.
#pragma once

#include "python.h"

namespace hvd::python {

// seal() and check_seal(); the array ends with an empty entry and lives as long as the process.
PyMethodDef* seal_methods();

}  // namespace hvd::python
