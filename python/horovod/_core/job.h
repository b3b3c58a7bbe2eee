// SPDX-License-Identifier: Apache-2.0
// The functions of hvd.h without tensors: start and end of a job, ranks and sizes, process sets,
// the timeline, and settings. Functions that wait for other ranks run signal handlers meanwhile.
#pragma once

#include "python.h"

namespace hvd::python {

// The array ends with an empty entry and lives as long as the process.
PyMethodDef* job_methods();

}  // namespace hvd::python
